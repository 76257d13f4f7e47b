/// A name or number of the device in UTF-8.
///
/// Device Information Service 1.1, 3.2 to 3.7: model (0x2A24), serial number (0x2A25), firmware (0x2A26),
/// hardware (0x2A27), software (0x2A28), manufacturer (0x2A29). Trailing NUL bytes and spaces, which some
/// firmware adds, are removed. Invalid UTF-8 becomes U+FFFD.
public struct DeviceInformationText: CharacteristicValue {
  public let text: String

  public init(_ text: String) { self.text = text }

  public init(decoding value: Span<UInt8>) {
    var end = value.count
    while end > 0, value[end - 1] == 0 || value[end - 1] == UInt8(ascii: " ") { end -= 1 }
    var copy: [UInt8] = []
    copy.reserveCapacity(end)
    for index in 0..<end { copy.append(value[index]) }
    text = String(decoding: copy, as: UTF8.self)
  }

  public var encodedByteCount: Int { text.utf8.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    for octet in text.utf8 { output.append(octet) }
  }
}
