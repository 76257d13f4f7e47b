internal import CReportPage

/// A file in the pages of `ringtap report` and `--to ws:`. All files are embedded in the program.
package enum PageFile: Sendable {
  case style, data, charts, script
  /// Additions to `style`, and the script, of the page that plots samples as they arrive.
  case liveStyle, liveScript
  /// The dygraphs library and its licence notice.
  case library, libraryStyle, libraryLicence

  package var octets: [UInt8] {
    var count = 0
    // SAFETY: the bytes are constants of the program, and their number is `count`.
    return unsafe Array(UnsafeBufferPointer(start: ringtap_page_file(file, &count), count: count))
  }

  private var file: ringtap_page_file {
    switch self {
    case .style: RINGTAP_PAGE_STYLE
    case .data: RINGTAP_PAGE_DATA
    case .charts: RINGTAP_PAGE_CHARTS
    case .script: RINGTAP_PAGE_SCRIPT
    case .liveStyle: RINGTAP_PAGE_LIVE_STYLE
    case .liveScript: RINGTAP_PAGE_LIVE_SCRIPT
    case .library: RINGTAP_PAGE_LIBRARY
    case .libraryStyle: RINGTAP_PAGE_LIBRARY_STYLE
    case .libraryLicence: RINGTAP_PAGE_LIBRARY_LICENCE
    }
  }
}
