public import BLEHost

/// What a session does with each link to its device: the kind of sensor.
public protocol SessionProfile: Sendable {
  associatedtype Stream: Sendable

  /// When samples came; one object for the whole session.
  var times: SampleTimes { get }
  /// Finds what the stream needs, subscribes and starts it.
  ///
  /// - Throws: `gatt(closed)` where the link ends meanwhile, which is tried again; anything else ends the session.
  func start(on connection: Connection) async throws(HostError) -> Stream
  /// Does what the first sample need not wait for: once that sample is there, or does not come. A cancelled task asks the
  /// device no more.
  func complete(_ stream: Stream) async
  /// When the stream counts as silent though the link is up; `nil`: never.
  func silenceRule(of stream: Stream) -> SilenceRule?
  /// Asks the device to send no more, while the link is up.
  func stop(_ stream: Stream) async
}
