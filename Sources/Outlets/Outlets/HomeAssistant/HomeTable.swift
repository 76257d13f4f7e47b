import BLESensors
import Recording

/// Extracts the values for Home Assistant from the rows of one recorded table.
///
/// If a row has no heart rate or temperature, for example because a strap has no contact, the value is
/// reported as unknown. If a sensor sends a value only with some rows, such as the energy, the last value is
/// kept.
struct HomeTable: Sendable {
  private enum Source: Sendable { case heartRate, temperature, cycling }

  private let source: Source
  private let columns: [RecordedColumn]
  private var cells: WordRow

  /// Prepares the extraction from a table.
  ///
  /// - Returns: `nil` for a table without values for Home Assistant: beats, light, acceleration.
  init?(_ table: RecordedTable) {
    switch table.name {
    case "heart_rate": source = .heartRate
    case "temperature": source = .temperature
    case "cycling": source = .cycling
    default: return nil
    }
    columns = table.columns
    cells = WordRow(columns, wordCapacity: columns.count)
  }

  /// Returns the values of a row.
  ///
  /// - Returns: each value in Home Assistant's format; `nil` if the value is currently unknown.
  mutating func values(of row: some RecordedRow) -> [(HomeEntity, String?)] {
    cells.removeAll()
    row.encode(into: &cells)
    cells.endRow()
    switch source {
    case .heartRate:
      let contact = number("contact").map { Self.flag($0 > 0) }
      let energy = number("energy_kj").map { Self.text($0, 0) }
      return [(.heartRate, rate("bpm"))] + known(.worn, contact) + known(.energy, energy)
    case .temperature: return temperatures
    case .cycling:
      return known(.cadence, number("cadence_rpm").map { Self.text($0, 0) })
        + known(.wheel, number("wheel_rpm").map { Self.text($0, 0) })
    }
  }

  private var temperatures: [(HomeEntity, String?)] {
    let state = word("state")
    // The next row may have the final result of the measurement.
    if state == "intermediate" { return [] }
    let level = number("quality").flatMap { Int(exactly: $0) }
    let names = CoreBodyTemperature.Quality.levelNames
    let quality = level.flatMap { names.indices.contains($0) ? names[$0] : nil }
    func degrees(_ column: String) -> String? {
      level == 0 ? nil : number(column).map { Self.text($0, 2) }
    }
    return [
      (.temperature, degrees("temperature_celsius")), (.skinTemperature, degrees("skin_celsius")),
      (.temperatureQuality, quality), (.heartRate, rate("heart_rate_bpm")),
      (.heatStrain, number("heat_strain_index").map { Self.text($0, 1) }),
    ] + (state == "measured" ? known(.worn, Self.flag(true)) : [])
      + (state == "not_on_body" ? known(.worn, Self.flag(false)) : [])
  }

  /// Returns the entity with its value; empty if the row has no value for it.
  private func known(_ entity: HomeEntity, _ text: String?) -> [(HomeEntity, String?)] {
    text.map { [(entity, $0)] } ?? []
  }

  /// Returns a heart rate. A rate of 0 counts as unknown: sensors send 0 until they have found a rate.
  private func rate(_ column: String) -> String? {
    number(column).flatMap { $0 > 0 ? Self.text($0, 0) : nil }
  }

  private func number(_ column: String) -> Double? {
    columns.firstIndex { $0.name == column }.flatMap { columns[$0].number(cells.words[$0]) }
  }

  private func word(_ column: String) -> String? {
    guard let place = columns.firstIndex(where: { $0.name == column }),
      case .word(let list) = columns[place].kind, let number = Int(exactly: cells.words[place])
    else { return nil }
    return list.indices.contains(number) ? list[number] : nil
  }

  static func flag(_ isSet: Bool) -> String { isSet ? "ON" : "OFF" }
  static func text(_ number: Double, _ decimals: Int) -> String { NumberText.fixed(number, decimals) }
}
