import CMallocCounter
import Recording
import TestKit
import Testing

@Suite(.enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct OutputAllocationTests {
  /// A disk or a processor that is busy for a second lets rows accumulate: three full buffers of the shortest
  /// rows.
  @Test func rowsThatGatherAllocateNothing() throws {
    try withFolder { folder in
      var file = try OutputFile(creating: folder + "/rows", ifExists: .fail)
      let row = [UInt8](repeating: 0x31, count: 16)
      try file.append(row)
      // The first flush also initialises what the language runtime keeps, if no other test of this process
      // has.
      try file.flush()
      let before = malloc_counter_calls()
      for _ in 0..<3 * 4096 { try file.append(row) }
      #expect(malloc_counter_calls() == before)
      #expect(file.writtenUnits == 1 + 3 * 4096)
    }
  }
}
