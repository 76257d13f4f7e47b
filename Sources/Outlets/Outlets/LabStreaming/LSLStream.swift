import BLEWire
import JSONText
import Recording

/// What receivers learn of a stream. It is fixed once there is an outlet of it, and the same at each recording of a device, so
/// that a receiver whose stream has gone finds it again.
struct LSLStream: Hashable, Sendable {
  /// liblsl's numbers.
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
  /// 0: samples come when they come.
  let rateHz: Double
  /// What is said of each.
  let channels: [[Element]]
  /// Who measured.
  let acquisition: [Element]

  /// A table's, whose columns after the time that hold numbers are the channels.
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

  /// What happens to the device's link.
  static func events(of device: SampleDevice) -> LSLStream {
    LSLStream(
      "events", of: device, type: "Markers", .text, rateHz: 0, channels: [[Element("label", "event")]])
  }

  private init(
    _ part: String, of device: SampleDevice, type: String, _ format: Format, rateHz: Double,
    channels: [[Element]]
  ) {
    // Nothing of the air, and not what is known only sometimes.
    name = "\(device.kind) \(device.address) \(part)"
    sourceID = "ringtap:\(device.address):\(part)"
    (self.type, self.format, self.rateHz, self.channels) = (type, format, rateHz, channels)
    var acquisition = [Element("address", device.address.description), Element("kind", device.kind)]
    if let maker = Self.makers[device.kind] { acquisition.append(Element("manufacturer", maker)) }
    // An advertised name has the model.
    if let model = device.name { acquisition.append(Element("model", model.printableInXML)) }
    self.acquisition = acquisition
  }

  /// By kind, where a kind is one maker's: what a device tells of itself comes after its first sample.
  private static let makers = ["ring": "Colmi", "polar": "Polar Electro Oy"]

  /// The XDF specification's names of contents that it has.
  private static let types = ["ecg": "ECG", "ppg": "PPG"]

  /// Places of the columns that are channels: the first is the time stamp, and the digits of other times are more than a
  /// double has.
  static func places(_ columns: [RecordedColumn]) -> [Int] {
    columns.indices.dropFirst().filter { columns[$0].unit != "ns" }
  }
}

extension RecordedColumn.Kind {
  /// Whether 24 bits hold all of its numbers.
  fileprivate var isShort: Bool {
    switch self {
    case .int16, .uint16, .float32, .word: true
    case .int32, .int64, .float64: false
    }
  }

  /// What a channel has of a cell: the number, of a word its place in the list, and NaN where there is none.
  func channelValue(_ cell: UInt64) -> Double {
    if case .word = self { return TableCell.isMissing(cell, self) ? .nan : Double(cell) }
    return TableCell.number(cell, self) ?? .nan
  }
}
