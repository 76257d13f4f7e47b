import BLEWire
import ColmiRing
import SensorSessions

/// Traffic between a ring and its host. Each value must be counted exactly once, and each line must be JSON.
/// In a packet's first byte, bit 0 is the channel, bit 1 the direction, bits 2 and 3 let time pass; bit 4
/// makes the packet valid by adding its checksum or its big data header; bit 5 ends the link before it.
func fuzzRingStory(_ input: Span<UInt8>) {
  let steps: [Int64] = [1_000_000, 30_000_000_000, 86_400_000_000_000, .max / 2]
  for calendar in [RingCalendar.utc, nil] {
    let lines = StoryLines()
    var story = RingStory(calendar: calendar) { lines.octets += array($0) }
    var time: Int64 = 1_700_000_000_000_000_000
    forEachPacket(input) { kind, packet in
      if kind & 0x20 != 0 { story.finish() }
      time &+= steps[Int(kind >> 2 & 3)]
      let isBigData = kind & 1 != 0
      let octets = kind & 0x10 == 0 ? array(packet) : isBigData ? message(packet) : frame(packet)
      story.take(
        octets.span, channel: isBigData ? .bigData : .uart,
        direction: kind & 2 == 0 ? .ringToHost : .hostToRing, at: ReceiveTime(nanoseconds: time))
    }
    story.finish()
    let counts = story.counts
    let known = counts.frames.values.reduce(0, +) + counts.messages.values.reduce(0, +)
    let others = counts.logFrames.values.reduce(0, +) + counts.pieces + counts.rawFrames
    let strange = counts.unknown.values.reduce(0, +) + counts.invalid.values.reduce(0, +)
    precondition(known + others + strange == counts.values, "a value is counted twice, or not at all")
    let count = checkJSON(lines.octets)
    story.finish()
    precondition(story.counts == counts && checkJSON(lines.octets) == count, "finished twice")
  }
}

private final class StoryLines {
  var octets: [UInt8] = []
}

private func frame(_ packet: Span<UInt8>) -> [UInt8] {
  var octets = array(packet.extracting(..<min(packet.count, 15)))
  octets += [UInt8](repeating: 0, count: 15 - octets.count)
  return octets + [octets.reduce(0, &+)]
}

private func message(_ packet: Span<UInt8>) -> [UInt8] {
  let payload = packet.isEmpty ? [] : array(packet.extracting(1...))
  let message = RingBigData(id: packet.isEmpty ? 0 : packet[0], payload: payload)
  return [UInt8](encoding: message.byteCount) { message.encode(into: &$0) }
}
