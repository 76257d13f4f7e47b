/// Decides which of a daemon's radios serves a device.
enum RadioPlan {
  /// A radio that is open and responds.
  struct Standing: Hashable, Sendable {
    /// Index of the radio in the file.
    var place: Int
    /// Number of devices that the radio serves.
    var links: Int
    /// Maximum number of devices; `nil` for no limit.
    var limit: Int?
    /// Rows per second of the devices that the radio serves.
    var load: Double

    var hasRoom: Bool { limit.map { links < $0 } ?? true }
  }

  /// Chooses the radio for a device: the radio with the fewest devices; among equals, the radio with the
  /// least load; among equals, the first radio in the file.
  ///
  /// - Parameters:
  ///   - tie: the radio that the file names for the device; `nil` for any radio.
  ///   - last: the radio that has not reached the device, which is chosen only if there is no other radio.
  ///   - standings: the radios that are open and respond.
  /// - Returns: the radio's place in the file; `nil` if the device must wait.
  static func radio(for tie: Int?, avoiding last: Int?, among standings: [Standing]) -> Int? {
    let able = standings.filter { $0.hasRoom && (tie == nil || $0.place == tie) }
    let others = able.filter { $0.place != last }
    return (others.isEmpty ? able : others).min {
      ($0.links, $0.load, $0.place) < ($1.links, $1.load, $1.place)
    }?.place
  }
}
