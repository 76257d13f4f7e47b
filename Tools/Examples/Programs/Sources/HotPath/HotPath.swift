// Counts a device's notifications on the receive thread, without copies or allocations, until Ctrl-C.
//
// HotPath ADDRESS CHARACTERISTIC [RADIO]
//     such as 70:CB:0D:00:50:C0 7d1a0002-6f2b-4c58-9a3e-52494e475441 virtual:source,payload=244
import RingTap
import Synchronization

let arguments = CommandLine.arguments.dropFirst().map { String($0) }
guard arguments.count >= 2, let address = DeviceAddress(arguments[0]),
  let characteristic = BluetoothUUID(arguments[1])
else { fatalError("which device, and which characteristic? 70:CB:0D:00:18:0D 2a37, for example") }

let notifications = Atomic(0)
let octets = Atomic(0)
await runProgram {
  let radio = try await Radio.open(arguments.dropFirst(2).first)
  try await radio.withConnection(to: address) { device in
    try await device.subscribe(to: characteristic) { notification, time in
      notifications.add(1, ordering: .relaxed)
      octets.add(notification.value.count, ordering: .relaxed)
    }
    try await device.ended()
  }
}
print("\(notifications.load(ordering: .relaxed)) notifications, \(octets.load(ordering: .relaxed)) octets")
