package import BLEHost
package import Physiology
package import Recording

/// The state shown in one frame of the live view.
package struct LiveState: Sendable {
  /// Adapter and access mode, such as `hci0, raw mode`.
  package var radio = ""
  /// Description of the device being searched for; `nil` if no search is running.
  package var search: String?
  package var devices: [LiveDevice] = []
  /// Seconds since the first stream started.
  package var elapsed: Int?
  /// Requested duration in seconds; `nil` for no limit.
  package var duration: Int?
  /// Requested number of samples per device; `nil` for no limit.
  package var count: Int?
  /// Directory of the recording.
  package var directory = ""
  /// Whether this is the last frame, which stays on the screen.
  package var isOver = false

  package init() {}
}

/// One device in the live view.
package struct LiveDevice: Sendable {
  /// Name reported by the device, as untrusted text.
  package var name: String?
  package var address: String
  package var state = LiveLinkState.waiting
  package var link = LiveLink()
  /// RSSI in dBm at the time when the device was found.
  package var rssi: Int?
  /// Battery level in percent.
  package var battery: Int?
  package var streams: [LiveStream] = []
  package var pulse: LivePulseReading?
  /// 99th percentile of the timestamps' delay relative to the sensor's clock, in nanoseconds.
  package var jitter: Double?
  package var counts = ReceiveCounts()
  /// Number of ticks that never arrived, according to the sensor's clock. Losses within this process are not
  /// included.
  package var missingTicks = 0
  package var gaps = 0
  /// The reason for the last lost link.
  package var lastGap: String?
  /// Size of the device's files in bytes.
  package var byteCount = 0

  package init(_ address: String) { self.address = address }
}

package enum LiveLinkState: Hashable, Sendable {
  /// The first attempt to connect has not started.
  case waiting
  case connecting, discovering, streaming
  /// The link was lost `seconds` ago for the given reason. Reconnection attempt number `attempt` is in
  /// progress, or starts in `pause` seconds.
  case lost(seconds: Int, reason: String, attempt: Int, pause: Int?)
  case closed
}

/// Current link parameters; `nil` if unknown.
package struct LiveLink: Hashable, Sendable {
  package var intervalMilliseconds: Double?
  package var latency: Int?
  package var timeoutMilliseconds: Int?
  package var phy: String?
  package var mtu: Int?
  package var security: LinkSecurity?

  package init() {}
}

/// State of one recorded table.
package struct LiveStream: Sendable {
  package var name: String
  /// Number of rows.
  package var count = 0
  package var rate: Double?
  /// Last value of the displayed column; `nil` if this column is empty in the last row.
  package var last: Double?
  package var decimals = 0
  /// Time since the last row, in nanoseconds; `nil` before the first row.
  package var silence: Int64?
  /// Unit as in `RecordedColumn`.
  package var unit = ""
  /// Columns of the waveform, oldest first.
  package var wave: [LiveExtremes?] = []
  /// Duration of a wave column, in seconds.
  package var columnSeconds = 0.05

  package init(_ name: String) { self.name = name }

  /// Returns the value range of a waveform with these columns; `nil` without samples.
  func range(_ columns: [LiveExtremes?]) -> ClosedRange<Double>? {
    LiveWave.range(columns, unit: unit, columnSeconds: columnSeconds)
  }
}

/// The pulse computed from a plethysmogram.
package enum LivePulseReading: Hashable, Sendable {
  /// The first window has not ended yet.
  case waiting
  /// The pulse cannot be computed from this signal, for the given reason.
  case refused(String)
  case window(PulseRateWindow)
}
