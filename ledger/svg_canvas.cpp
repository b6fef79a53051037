// SPDX-License-Identifier: Apache-2.0
#include "ledger/svg_canvas.h"

#include <array>
#include <cstdio>

#include "ledger/report_parts.h"

namespace slip {
namespace {

// The palette of Okabe and Ito, distinguishable with any kind of colour vision.
constexpr const char* kPublished = "#009E73";
constexpr const char* kRefused = "#767676";
constexpr const char* kRolledBack = "#D55E00";
constexpr const char* kDrift = "#AA4499";

constexpr std::array<SvgShade, 12> kShades = {{{kPaper, "#14181D"},
                                               {kInk, "#E8ECF1"},
                                               {kSoft, "#A3AFBD"},
                                               {kLive, "#56B4E9"},
                                               {kBase, "#F0A24A"},
                                               {kGrid, "#2A323B"},
                                               {kAxis, "#4A5561"},
                                               {kEventLine, "#3D4752"},
                                               {kPublished, "#2CC79B"},
                                               {kRefused, "#9AA3AD"},
                                               {kRolledBack, "#FF8A4C"},
                                               {kDrift, "#D97CC8"}}};

// Selects elements by their colour attributes. Drawing code thus uses one palette, and viewers without style sheets
// show it.
std::string dark_style() {
  std::string rules;
  for (const auto& [light, dark] : kShades) {
    for (const char* property : {"fill", "stroke"}) {
      rules += std::string("[") + property + "='" + light + "']{" + property + ":" + dark + "}";
    }
  }
  return "<style>@media (prefers-color-scheme:dark){" + rules + "}</style>\n";
}

std::string coordinates(std::span<const SvgPoint> points) {
  std::string out;
  for (const auto& point : points) out += svg_number(point.x) + "," + svg_number(point.y) + " ";
  return out;
}

std::string stroke_attributes(const char* stroke, double width, const char* dashes) {
  std::string out = std::string(" fill=\"none\" stroke=\"") + stroke + "\" stroke-width=\"" + svg_number(width) +
                    "\" stroke-linejoin=\"round\" stroke-linecap=\"round\"";
  if (*dashes != '\0') out += std::string(" stroke-dasharray=\"") + dashes + "\"";
  return out;
}

}  // namespace

std::span<const SvgShade> svg_shades() {
  return kShades;
}

std::string svg_number(double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.1f", value);
  return digits.data();
}

std::string svg_escape(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void SvgCanvas::text(SvgPoint at, const std::string& content, SvgTextStyle style) {
  body_ += "<text x=\"" + svg_number(at.x) + "\" y=\"" + svg_number(at.y) + "\" font-size=\"" +
           std::to_string(style.size) + "\" fill=\"" + style.fill + "\" text-anchor=\"" + style.anchor + "\"" +
           (style.bold ? " font-weight=\"600\"" : "") + ">" + svg_escape(content) + "</text>\n";
}

void SvgCanvas::line(SvgPoint from, SvgPoint to, const char* stroke, double width, const char* dashes) {
  const std::array<SvgPoint, 2> ends = {from, to};
  polyline(ends, stroke, width, dashes);
}

void SvgCanvas::polyline(std::span<const SvgPoint> points, const char* stroke, double width, const char* dashes) {
  body_ += "<polyline points=\"" + coordinates(points) + "\"" + stroke_attributes(stroke, width, dashes) + "/>\n";
}

void SvgCanvas::polygon(std::span<const SvgPoint> points, const char* fill, double opacity) {
  std::array<char, 16> alpha{};
  std::snprintf(alpha.data(), alpha.size(), "%.2f", opacity);
  body_ +=
      "<polygon points=\"" + coordinates(points) + "\" fill=\"" + fill + "\" fill-opacity=\"" + alpha.data() + "\"/>\n";
}

void SvgCanvas::rectangle(SvgPoint corner, double width, double height, const char* fill) {
  body_ += "<rect x=\"" + svg_number(corner.x) + "\" y=\"" + svg_number(corner.y) + "\" width=\"" + svg_number(width) +
           "\" height=\"" + svg_number(height) + "\" fill=\"" + fill + "\"/>\n";
}

void SvgCanvas::circle(SvgPoint center, double radius, const char* fill) {
  body_ += "<circle cx=\"" + svg_number(center.x) + "\" cy=\"" + svg_number(center.y) + "\" r=\"" + svg_number(radius) +
           "\" fill=\"" + fill + "\"/>\n";
}

void SvgCanvas::begin_group(const std::string& name, const std::string& topic) {
  body_ += "<g class=\"" + svg_escape(name) + "\"";
  if (!topic.empty()) body_ += " data-topic=\"" + svg_escape(topic) + "\"";
  body_ += ">\n";
}

void SvgCanvas::mark(SvgPoint center, const std::string& kind, const std::string& title) {
  const double x = center.x, y = center.y, r = 5;
  body_ += "<g class=\"mark " + svg_escape(kind) + "\">";
  if (!title.empty()) body_ += "<title>" + svg_escape(title) + "</title>";
  if (kind == "publish") {
    polygon(std::array<SvgPoint, 3>{{{x, y - r}, {x + r, y + r - 1}, {x - r, y + r - 1}}}, kPublished, 1);
  } else if (kind == "rollback") {
    polygon(std::array<SvgPoint, 3>{{{x, y + r}, {x + r, y - r + 1}, {x - r, y - r + 1}}}, kRolledBack, 1);
  } else if (kind == "drift") {
    polygon(std::array<SvgPoint, 4>{{{x, y - r - 1}, {x + r, y}, {x, y + r + 1}, {x - r, y}}}, kDrift, 1);
  } else {
    line({x - r + 1.5, y - r + 1.5}, {x + r - 1.5, y + r - 1.5}, kRefused, 1.8);
    line({x - r + 1.5, y + r - 1.5}, {x + r - 1.5, y - r + 1.5}, kRefused, 1.8);
  }
  body_ += "</g>\n";
}

std::string SvgCanvas::document(double width, double height, const std::string& title,
                                const std::string& description) const {
  const std::string size = svg_number(width) + " " + svg_number(height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" + svg_number(width) +
         "\" height=\"" + svg_number(height) +
         "\" role=\"img\" font-family=\"Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n<title>" +
         svg_escape(title) + "</title>\n<desc>" + svg_escape(description) + "</desc>\n" + dark_style() + body_ +
         "</svg>\n";
}

}  // namespace slip
