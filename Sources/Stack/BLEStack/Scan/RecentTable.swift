/// A table with a limited number of keys. When it is full, a new key replaces the least recently used key.
///
/// Each use takes constant time.
package struct RecentTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Entry: Sendable {
    var key: Key
    var value: Value
    /// Index of the entry that was last used before this entry. `newer` is the index of the next used entry.
    var older: Int?
    var newer: Int?
  }

  private let limit: Int
  private var places: [Key: Int] = [:]
  private var entries: [Entry] = []
  private var oldest: Int?
  private var newest: Int?
  /// Number of keys that were removed because the table was full.
  package private(set) var forgotten = 0

  /// Creates an empty table.
  ///
  /// - Parameter limit: maximum number of keys, at least 1.
  package init(limit: Int) {
    precondition(limit > 0)
    self.limit = limit
  }

  package var count: Int { entries.count }

  package subscript(_ key: Key) -> Value? { places[key].map { entries[$0].value } }

  /// Lends the value of a key in place, and makes the key the most recently used.
  ///
  /// - Parameters:
  ///   - first: value for a key that is not in the table.
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

  /// Adds a key.
  ///
  /// - Returns: Index of the key. The key is not yet linked into the order of use.
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
