public import BLEHost

/// The actions of a session on each link to its device, for one kind of sensor.
public protocol SessionProfile: Sendable {
  associatedtype Stream: Sendable

  /// Receive times of samples; one object for the whole session.
  var times: SampleTimes { get }
  /// Finds the attributes that the stream needs, subscribes and starts it.
  ///
  /// - Throws: `gatt(closed)` if the link ends meanwhile, which is retried; any other error ends the session.
  func start(on connection: Connection) async throws(HostError) -> Stream
  /// Does the work that can follow the first sample. Called after that sample, or after a time without one.
  /// Once its task is cancelled, it sends no further requests.
  func complete(_ stream: Stream) async
  /// Rule for when the stream counts as silent although the link is up; `nil` for never.
  func silenceRule(of stream: Stream) -> SilenceRule?
  /// Stops the stream while the link is up.
  func stop(_ stream: Stream) async
}
