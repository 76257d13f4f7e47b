import BLESensors
import BLEWire
import CMallocCounter
import TestKit
import Testing

/// Sensor notifications are decoded on the receive thread without an allocation.
@Suite(.enabled(if: malloc_counter_counts(), "the sanitizer has an allocator of its own"))
struct SensorAllocationTests {
  private static let rounds = 1_000

  /// Compressed acceleration from the reference (`pmd-acc-delta-type0-verity-capture`, first block), 30
  /// samples.
  @Test func readsPolarFrames() throws {
    let value = octetsOf(
      "02965b065deeab7f09808ef1b9fb34fb081d2a1a1d2beee5eddbf19902fba7f0d7eb0bd70419d70638e73412105b0c3624072f22e7"
        + "57def31bf21f07e405f4f4f4e7fc11fa0ffcf31a12042ffd1425e81b15173c01f432baff1306faf6dbfae4acf8c0aefebca0e1e0"
    )
    var sum: Int64 = 0
    var count = 0
    var before: UInt64 = 0
    for round in 0..<Self.rounds {
      // The first round may perform one-time initialisation.
      if round == 1 { before = malloc_counter_calls() }
      let frame = try PolarFrame(validating: value.span)
      frame.forEachSample { sample in
        sum += Int64(sample[0])
        count += 1
      }
    }
    let after = malloc_counter_calls()
    #expect(count == 30 * Self.rounds)
    #expect(sum == -111_054 * Int64(Self.rounds), "the sum of the reference's")
    #expect(after == before)
  }

  @Test func readsHeartRatesAndTemperatures() throws {
    let heartRate = octetsOf("1f2c01d2041a030004f003")
    let temperature = octetsOf("02720100ffe807021d173b3a")
    let core = octetsOf("17400ec10d60081400")
    var sum = 0
    var before: UInt64 = 0
    for round in 0..<Self.rounds {
      // The first round may perform one-time initialisation.
      if round == 1 { before = malloc_counter_calls() }
      sum += Int(try HeartRateMeasurement(decoding: heartRate.span).beatsPerMinute)
      sum += Int(try TemperatureMeasurement(decoding: temperature.span).temperature.mantissa)
      sum += try CoreBodyTemperature(decoding: core.span).skinHundredths.map(Int.init) ?? 0
    }
    let after = malloc_counter_calls()
    #expect(sum == (300 + 370 + 3521) * Self.rounds)
    #expect(after == before)
  }
}
