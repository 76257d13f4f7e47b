import JSONText

/// Building blocks of SVG 1.1 pictures. These have no scripts, external fonts or images.
package enum SVG {
  /// Returns a white page, 960 pixels wide.
  package static func page(_ body: String, height: Double) -> [UInt8] {
    let height = number(height)
    let picture = """
      <?xml version="1.0" encoding="UTF-8"?>
      <svg xmlns="http://www.w3.org/2000/svg" width="960" height="\(height)" viewBox="0 0 960 \(height)" \
      font-family="sans-serif" font-size="12" fill="#222">
      <rect width="960" height="\(height)" fill="#fff"/>
      \(body)</svg>

      """
    return Array(picture.utf8)
  }

  package static func text(
    _ x: Double, _ y: Double, _ text: String, size: Int = 12, anchor: String = "start", color: String = "#222"
  ) -> String {
    "<text x=\"\(number(x))\" y=\"\(number(y))\" font-size=\"\(size)\" text-anchor=\"\(anchor)\" fill=\"\(color)\">"
      + "\(text.markup)</text>\n"
  }

  /// Formats a number, rounded to hundredths of a pixel.
  package static func number(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }

  /// Returns a step for an axis: 1, 2 or 5 times a power of ten, and at least `wanted`.
  package static func niceStep(_ wanted: Double) -> Double {
    guard wanted > 0, wanted.isFinite else { return 0 }
    var power = 1e-3
    while power * 10 < wanted { power *= 10 }
    for factor in [1.0, 2, 5] where power * factor >= wanted { return power * factor }
    return power * 10
  }
}
