import BLEPacketLog
import BLEWire
import Foundation

/// Splits an input into packets for `body`: a byte that describes the packet, two bytes of length, then its
/// bytes. The last packet may be shorter than its length.
func forEachPacket(_ input: Span<UInt8>, _ body: (UInt8, Span<UInt8>) -> Void) {
  var rest = input
  while rest.count >= 3 {
    let end = min(rest.count, 3 + Int(rest.u16(at: 1)))
    body(rest[0], rest.extracting(3..<end))
    rest = rest.extracting(end...)
  }
}

/// Splits an input into records of a log. In the first byte, bits 0 to 2 are the H4 type, with 0 for a note
/// of the monitor and 7 for a vendor packet; bit 3 is the direction; bit 4 the adapter; bit 5 marks a
/// truncated packet; bits 6 and 7 let time pass.
func forEachRecord(_ input: Span<UInt8>, _ body: (borrowing PacketRecord) -> Void) {
  var header = PacketRecordHeader()
  header.time = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
  let steps: [Int64] = [1_000_000, 0, 3_600_000_000_000, -1_000_000_000]
  forEachPacket(input) { kind, packet in
    header.index += 1
    header.time = ReceiveTime(nanoseconds: header.time.nanoseconds + steps[Int(kind >> 6)])
    header.direction = kind & 0x08 == 0 ? .hostToController : .controllerToHost
    header.adapter = UInt16(kind >> 4 & 1)
    header.originalByteCount = packet.count + (kind & 0x20 == 0 ? 0 : 5)
    header.drops = kind == 0xFF ? 3 : 0
    header.cumulativeDrops += header.drops
    switch kind & 0x07 {
    case 0:
      header.type = nil
      header.note = packet.isEmpty ? nil : MonitorOpcode(rawValue: UInt16(packet[0]))
    case 7: (header.type, header.note) = (.vendor, nil)
    default: (header.type, header.note) = (HCIPacketType(rawValue: kind & 0x07), nil)
    }
    body(PacketRecord(header, packet: packet))
  }
}

func array(_ octets: Span<UInt8>) -> [UInt8] { octets.indices.map { octets[$0] } }

/// Traps unless the text is valid UTF-8 without control characters other than line ends.
func checkText(_ octets: [UInt8]) {
  guard let text = String(validating: octets, as: UTF8.self) else { fatalError("not UTF-8") }
  for scalar in text.unicodeScalars where scalar.properties.generalCategory == .control {
    guard scalar == "\n" else { fatalError("control character \(scalar.value)") }
  }
}

/// Traps unless an independent parser reads each line as a JSON object.
///
/// - Returns: Number of lines.
@discardableResult
func checkJSON(_ octets: [UInt8]) -> Int {
  let lines = octets.split(separator: UInt8(ascii: "\n"))
  for line in lines {
    guard let object = try? JSONSerialization.jsonObject(with: Data(line)), object is [String: Any] else {
      fatalError("not JSON: \(String(decoding: line, as: UTF8.self))")
    }
  }
  return lines.count
}
