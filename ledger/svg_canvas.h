// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace slip {

// The colours of the light palette. document() maps each to its dark counterpart for viewers that prefer dark.
inline constexpr const char* kPaper = "#FFFFFF";
inline constexpr const char* kInk = "#1F2933";
inline constexpr const char* kSoft = "#5F6C7B";
inline constexpr const char* kLive = "#0072B2";
inline constexpr const char* kBase = "#A85500";
inline constexpr const char* kGrid = "#E6E9ED";
inline constexpr const char* kAxis = "#B8C0CA";
inline constexpr const char* kEventLine = "#C9D1DA";

struct SvgPoint {
  double x = 0, y = 0;
};

struct SvgTextStyle {
  int size = 12;
  const char* fill = kInk;
  const char* anchor = "start";  // start, middle or end
  bool bold = false;
};

// Collects SVG elements. Text is escaped; numbers have one decimal.
class SvgCanvas {
 public:
  void text(SvgPoint at, const std::string& content, SvgTextStyle style);
  void line(SvgPoint from, SvgPoint to, const char* stroke, double width, const char* dashes = "");
  void polyline(std::span<const SvgPoint> points, const char* stroke, double width, const char* dashes = "");
  void polygon(std::span<const SvgPoint> points, const char* fill, double opacity);
  void rectangle(SvgPoint corner, double width, double height, const char* fill);
  void circle(SvgPoint center, double radius, const char* fill);
  // An event's mark, distinguishable without colour: ▲ published, ✕ refused, ▼ rolled back, ◆ drift. `title` is its
  // tooltip.
  void mark(SvgPoint center, const std::string& kind, const std::string& title);
  // Elements drawn until end_group() form one <g>, for readers and styling of the file.
  void begin_group(const std::string& name, const std::string& topic = {});
  void end_group() { body_ += "</g>\n"; }

  std::string document(double width, double height, const std::string& title, const std::string& description) const;

 private:
  std::string body_;
};

struct SvgShade {
  const char *light, *dark;
};
std::span<const SvgShade> svg_shades();

std::string svg_escape(const std::string& text);  // escapes markup and control characters that XML forbids
std::string svg_number(double value);

}  // namespace slip
