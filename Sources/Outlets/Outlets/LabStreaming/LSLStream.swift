import BLEWire
import JSONText
import Recording

/// Description of a stream for receivers. The description cannot change after the outlet has been created.
/// Each recording of a device has the same description, so that a receiver finds the stream again.
struct LSLStream: Hashable, Sendable {
  /// Format codes of liblsl.
  enum Format: Int32, Sendable {
    case float32 = 1
    case float64 = 2
    case text = 3
  }

  struct Element: Hashable, Sendable {
    var name: String
    var value: String

    init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
  }

  let name: String
  let type: String
  let sourceID: String
  let format: Format
  /// Sample rate in hertz; 0 for an irregular rate.
  let rateHz: Double
  /// Description of each channel.
  let channels: [[Element]]
  /// Description of the device.
  let acquisition: [Element]

  /// Describes the stream of a table. The channels are the numeric columns after the timestamp.
  init(_ table: SampleTable, of device: SampleDevice) {
    let columns = Self.places(table.columns).map { table.columns[$0] }
    self.init(
      table.name, of: device, type: Self.types[table.name] ?? table.name,
      columns.allSatisfy(\.kind.isShort) ? .float32 : .float64,
      rateHz: table.rateHz ?? 0,
      channels: columns.map { column in
        var elements = [Element("label", column.name)]
        if !column.unit.isEmpty { elements.append(Element("unit", column.unit)) }
        if case .word(let words) = column.kind {
          elements.append(Element("words", words.joined(separator: " ")))
        }
        return elements
      })
  }

  /// Describes the stream of link events of a device.
  static func events(of device: SampleDevice) -> LSLStream {
    LSLStream(
      "events", of: device, type: "Markers", .text, rateHz: 0, channels: [[Element("label", "event")]])
  }

  private init(
    _ part: String, of device: SampleDevice, type: String, _ format: Format, rateHz: Double,
    channels: [[Element]]
  ) {
    // The name must not contain text from the device, or facts that are not always known.
    name = "\(device.kind) \(device.address) \(part)"
    sourceID = "ringtap:\(device.address):\(part)"
    (self.type, self.format, self.rateHz, self.channels) = (type, format, rateHz, channels)
    var acquisition = [Element("address", device.address.description), Element("kind", device.kind)]
    if let maker = Self.makers[device.kind] { acquisition.append(Element("manufacturer", maker)) }
    // The advertised name contains the model.
    if let model = device.name { acquisition.append(Element("model", model.printableInXML)) }
    self.acquisition = acquisition
  }

  /// Manufacturer by device kind, for kinds with only one manufacturer. The device's Device Information is
  /// read too late, after the first sample.
  private static let makers = ["ring": "Colmi", "polar": "Polar Electro Oy"]

  /// Content types named in the XDF specification.
  private static let types = ["ecg": "ECG", "ppg": "PPG"]

  /// Returns the indexes of the columns that are channels. Excludes the timestamp in the first column, and
  /// other times, because a double cannot hold all their digits.
  static func places(_ columns: [RecordedColumn]) -> [Int] {
    columns.indices.dropFirst().filter { columns[$0].unit != "ns" }
  }
}

extension RecordedColumn.Kind {
  /// Whether a 32-bit float can represent all values of the column.
  fileprivate var isShort: Bool {
    switch self {
    case .int16, .uint16, .float32, .word: true
    case .int32, .int64, .float64: false
    }
  }

  /// Returns a cell's value for a channel: the number, or the index of a word in its list; NaN if the cell is
  /// empty.
  func channelValue(_ cell: UInt64) -> Double {
    if case .word = self { return TableCell.isMissing(cell, self) ? .nan : Double(cell) }
    return TableCell.number(cell, self) ?? .nan
  }
}
