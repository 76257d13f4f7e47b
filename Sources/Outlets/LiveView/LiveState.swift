package import BLEHost
package import Physiology
package import Recording

/// What the live view shows at one moment.
package struct LiveState: Sendable {
  /// How the radio is reached: `hci0, raw mode`.
  package var radio = ""
  /// What is looked for, while it is.
  package var search: String?
  package var devices: [LiveDevice] = []
  /// Since the first stream began, in seconds.
  package var elapsed: Int?
  /// What is asked for: seconds, or samples of each device.
  package var duration: Int?
  package var count: Int?
  /// What everything is written to.
  package var directory = ""

  package init() {}
}

/// One device in the live view.
package struct LiveDevice: Sendable {
  /// As the device says: it may hold anything.
  package var name: String?
  package var address: String
  package var state = LiveLinkState.waiting
  package var link = LiveLink()
  /// dBm when it was found.
  package var rssi: Int?
  /// Percent.
  package var battery: Int?
  package var streams: [LiveStream] = []
  package var pulse: LivePulseReading?
  /// 99 of 100 stamps are later than the sensor's clock by at most this: nanoseconds.
  package var jitter: Double?
  package var counts = ReceiveCounts()
  /// Ticks that never came, by the sensor's clock: no loss of ours.
  package var missingTicks = 0
  package var gaps = 0
  /// Why the last link was lost.
  package var lastGap: String?
  /// Octets in its files.
  package var byteCount = 0

  package init(_ address: String) { self.address = address }
}

package enum LiveLinkState: Hashable, Sendable {
  /// Nothing was tried yet.
  case waiting
  case connecting, discovering, streaming
  /// Without a link for so many seconds, for this reason; in attempt `attempt` to make another, or `pause` seconds before
  /// it.
  case lost(seconds: Int, reason: String, attempt: Int, pause: Int?)
  case closed
}

/// The parameters in force; `nil` where they are not known.
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
  /// Rows.
  package var count = 0
  package var rate: Double?
  /// Of the column that is shown; `nil` where the last row has none.
  package var last: Double?
  package var decimals = 0
  /// Since the last row: nanoseconds; `nil` before the first.
  package var silence: Int64?
  /// As in `RecordedColumn`.
  package var unit = ""
  /// The newest at the end.
  package var wave: [LiveExtremes?] = []
  /// Of one of these.
  package var columnSeconds = 0.05

  package init(_ name: String) { self.name = name }

  /// What a wave of some of its columns spans; `nil` without a sample.
  func range(_ columns: [LiveExtremes?]) -> ClosedRange<Double>? {
    LiveWave.range(columns, unit: unit, columnSeconds: columnSeconds)
  }
}

/// What can be said of the pulse in a plethysmogram.
package enum LivePulseReading: Hashable, Sendable {
  /// The first window is not over.
  case waiting
  /// The method means nothing here.
  case refused(String)
  case window(PulseRateWindow)
}
