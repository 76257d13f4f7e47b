/// Values by key, of the keys that were used last: with one more than fit, the one used longest ago goes.
///
/// Each use takes the same time, however many there are.
package struct RecentTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Entry: Sendable {
    var key: Key
    var value: Value
    /// The neighbours in the order of use.
    var older: Int?
    var newer: Int?
  }

  private let limit: Int
  private var places: [Key: Int] = [:]
  private var entries: [Entry] = []
  private var oldest: Int?
  private var newest: Int?
  /// Keys that went because there was no room.
  package private(set) var forgotten = 0

  /// - Parameter limit: how many there may be, at least 1.
  package init(limit: Int) {
    precondition(limit > 0)
    self.limit = limit
  }

  package var count: Int { entries.count }

  package subscript(_ key: Key) -> Value? { places[key].map { entries[$0].value } }

  /// Lends the value of a key in place, which is the one used last from now on.
  ///
  /// - Parameters:
  ///   - first: the value of a key that is not there.
  package mutating func use<Result>(
    _ key: Key, first: @autoclosure () -> Value, _ body: (inout Value) -> Result
  ) -> Result {
    let place: Int
    if let known = places[key] {
      place = known
      if newest != known { unlink(known) }
    } else {
      place = add(key, first())
    }
    if newest != place { link(place) }
    return body(&entries[place].value)
  }

  /// - Returns: its place, not yet in the order of use.
  private mutating func add(_ key: Key, _ value: Value) -> Int {
    var place = entries.count
    if entries.count < limit {
      entries.append(Entry(key: key, value: value))
    } else if let oldest {
      place = oldest
      unlink(place)
      places[entries[place].key] = nil
      entries[place] = Entry(key: key, value: value)
      forgotten += 1
    }
    places[key] = place
    return place
  }

  private mutating func unlink(_ place: Int) {
    let (older, newer) = (entries[place].older, entries[place].newer)
    if let older { entries[older].newer = newer } else { oldest = newer }
    if let newer { entries[newer].older = older } else { newest = older }
  }

  private mutating func link(_ place: Int) {
    (entries[place].older, entries[place].newer) = (newest, nil)
    if let newest { entries[newest].newer = place } else { oldest = place }
    newest = place
  }
}
