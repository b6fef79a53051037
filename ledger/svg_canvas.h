// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace slip {

struct SvgPoint {
  double x = 0, y = 0;
};

struct SvgTextStyle {
  int size = 12;
  const char* fill = "#333333";
  const char* anchor = "start";  // start, middle, end
  bool bold = false;
};

// Collects SVG elements; every text is escaped, every number written with one decimal.
class SvgCanvas {
 public:
  void text(SvgPoint at, const std::string& content, SvgTextStyle style);
  void line(SvgPoint from, SvgPoint to, const char* stroke, double width, const char* dashes = "");
  void polyline(std::span<const SvgPoint> points, const char* stroke, double width, const char* dashes = "");
  void polygon(std::span<const SvgPoint> points, const char* fill, double opacity);
  void rectangle(SvgPoint corner, double width, double height, const char* fill);
  void circle(SvgPoint center, double radius, const char* fill);
  // An event's shape, told apart without colour: ▲ published, ✕ refused, ▼ rolled back, ◆ drift. `title` is its
  // tooltip.
  void mark(SvgPoint center, const std::string& kind, const std::string& title);
  void raw(const std::string& element) { body_ += element; }

  std::string document(double width, double height, const std::string& title, const std::string& description) const;

 private:
  std::string body_;
};

std::string svg_escape(const std::string& text);  // markup, and control characters XML does not allow
std::string svg_number(double value);

}  // namespace slip
