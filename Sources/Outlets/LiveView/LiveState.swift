package import BLEHost
package import Physiology
package import Recording

/// State that the live view shows at one moment.
package struct LiveState: Sendable {
  /// Adapter and access mode, such as `hci0, raw mode`.
  package var radio = ""
  /// Target of the search while one is running.
  package var search: String?
  package var devices: [LiveDevice] = []
  /// Seconds since the first stream started.
  package var elapsed: Int?
  /// Requested duration in seconds, or requested number of samples per device.
  package var duration: Int?
  package var count: Int?
  /// Directory of the recording.
  package var directory = ""

  package init() {}
}

/// One device in the live view.
package struct LiveDevice: Sendable {
  /// Name that the device reports; untrusted text.
  package var name: String?
  package var address: String
  package var state = LiveLinkState.waiting
  package var link = LiveLink()
  /// RSSI in dBm when the device was found.
  package var rssi: Int?
  /// Battery level in percent.
  package var battery: Int?
  package var streams: [LiveStream] = []
  package var pulse: LivePulseReading?
  /// 99th percentile of the delay of timestamps against the sensor's clock, in nanoseconds.
  package var jitter: Double?
  package var counts = ReceiveCounts()
  /// Ticks that never arrived according to the sensor's clock. They were not lost in this process.
  package var missingTicks = 0
  package var gaps = 0
  /// Reason why the last link was lost.
  package var lastGap: String?
  /// Size of the device's files in bytes.
  package var byteCount = 0

  package init(_ address: String) { self.address = address }
}

package enum LiveLinkState: Hashable, Sendable {
  /// No connection attempt was made yet.
  case waiting
  case connecting, discovering, streaming
  /// The link was lost `seconds` ago for this reason. Attempt number `attempt` to reconnect is in progress,
  /// or starts in `pause` seconds.
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

/// One recorded table.
package struct LiveStream: Sendable {
  package var name: String
  /// Number of rows.
  package var count = 0
  package var rate: Double?
  /// Last value of the displayed column; `nil` if the last row has no value.
  package var last: Double?
  package var decimals = 0
  /// Time since the last row, in nanoseconds; `nil` before the first.
  package var silence: Int64?
  /// Unit as in `RecordedColumn`.
  package var unit = ""
  /// Columns of the wave, the newest last.
  package var wave: [LiveExtremes?] = []
  /// Duration of a wave column, in seconds.
  package var columnSeconds = 0.05

  package init(_ name: String) { self.name = name }

  /// Returns the value range of a wave with these columns; `nil` without samples.
  func range(_ columns: [LiveExtremes?]) -> ClosedRange<Double>? {
    LiveWave.range(columns, unit: unit, columnSeconds: columnSeconds)
  }
}

/// Reading of the pulse in a plethysmogram.
package enum LivePulseReading: Hashable, Sendable {
  /// The first window has not ended.
  case waiting
  /// The method does not apply to this signal.
  case refused(String)
  case window(PulseRateWindow)
}
