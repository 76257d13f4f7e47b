import BLEStack
import TestKit
import Testing

@Suite struct RecentTableTests {
  /// Compared with a list in order of use, which is slow but simple.
  @Test(arguments: [1, 2, 7, 64]) func forgetsTheOneUsedLongestAgo(_ limit: Int) {
    var table = RecentTable<Int, Int>(limit: limit)
    var model: [(key: Int, value: Int)] = []
    var forgotten = 0
    var generator = SeededGenerator(state: UInt64(limit))
    for _ in 0..<5_000 {
      let key = Int.random(in: 0..<limit * 2, using: &generator)
      let value = table.use(key, first: 0) { value in
        value += 1
        return value
      }
      let known = model.firstIndex { $0.key == key }
      let uses = (known.map { model.remove(at: $0).value } ?? 0) + 1
      if known == nil, model.count == limit {
        model.removeFirst()
        forgotten += 1
      }
      model.append((key, uses))
      #expect(value == uses)
      #expect(table.count == model.count)
    }
    #expect(table.forgotten == forgotten)
    for key in 0..<limit * 2 { #expect(table[key] == model.first { $0.key == key }?.value) }
  }
}
