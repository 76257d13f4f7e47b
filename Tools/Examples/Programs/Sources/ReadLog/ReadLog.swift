// Prints the notifications in a packet log of anybody's: btsnoop, pcapng, pcap or PacketLogger. It needs no radio.
//
// ReadLog FILE     such as btsnoop_hci.log
import RingTap

guard let path = CommandLine.arguments.dropFirst().first else { fatalError("which log?") }

await runProgram {
  let log = try PacketLog(contentsOf: path)
  for packet in log {
    guard let notification = packet.notification else { continue }
    print(packet.time.nanoseconds, notification.handle.rawValue, notification.bytes)
  }
  if let problem = log.problem { print("the log breaks off: \(problem)") }
}
