import BLEStack
import BLEWire
import TestKit
import Testing

/// A server with one client: requests and responses in hexadecimal.
struct ServerBench {
  var database: GATTServerDatabase
  var server: ATTServer
  /// Error code with which the application refuses writes, and the writes that were reported to it.
  var refusal: ATTErrorCode?
  private(set) var writes: [(handle: UInt16, value: String)] = []

  init(_ services: [GATTServiceDescription], receiveMTU: Int = 512) {
    database = GATTServerDatabase(services)
    server = ATTServer(database: database, receiveMTU: receiveMTU)
  }

  mutating func send(_ request: String) -> String {
    let pdu = octetsOf(request)
    let refusal = refusal
    var writes: [(handle: UInt16, value: String)] = []
    let answer = [UInt8](encoding: ATT.maximumMTU) {
      server.receive(pdu.span, database: &database, into: &$0) { handle, value in
        writes.append((handle.rawValue, hexOf(value.indices.map { value[$0] })))
        return refusal
      }
    }
    self.writes += writes
    return hexOf(answer)
  }

  /// Replaces the device's attributes.
  mutating func change(to services: [GATTServiceDescription]) {
    let changed = GATTServerDatabase(services)
    server.databaseChanged(from: database, to: changed)
    database = changed
  }

  mutating func push(_ push: ServerPush, _ handle: UInt16, _ value: String) -> (PushResult, String) {
    let value = octetsOf(value)
    var result = PushResult.notSubscribed
    let pdu = [UInt8](encoding: ATT.maximumMTU) {
      result = server.push(
        push, of: AttributeHandle(handle), value: value.span, database: database, into: &$0)
    }
    return (result, hexOf(pdu))
  }
}

/// Databases from BlueZ's `unit/test-gatt.c`.
enum ServerDatabases {
  typealias Service = GATTServiceDescription
  typealias Characteristic = GATTCharacteristicDescription
  typealias Descriptor = GATTDescriptorDescription

  private static func text(_ text: String) -> [UInt8] { [UInt8](text.utf8) }
  private static func handle(_ value: UInt16) -> AttributeHandle { AttributeHandle(value) }

  static let service1 = [
    Service(
      .genericAttribute,
      characteristics: [
        Characteristic(
          .deviceName, .read, value: text("BlueZ"),
          descriptors: [Descriptor(.characteristicUserDescription, value: text("Device Name"))])
      ]),
    Service(
      .heartRate,
      characteristics: [
        Characteristic(
          .manufacturerName, [.read, .write],
          descriptors: [
            Descriptor(
              .characteristicUserDescription, value: text("Manufacturer Name"), writeAccess: .allowed)
          ])
      ]),
  ]

  static let service3 = [
    Service(
      .genericAccess, handle: handle(0x0100),
      characteristics: [
        Characteristic(.deviceName, .read, value: text("BlueZ"), handle: handle(0x0110)),
        Characteristic(.appearance, .read, value: [0, 0], handle: handle(0x0120)),
      ]),
    Service(.genericAttribute, handle: handle(0x0200)),
    Service(
      .heartRate, handle: handle(0x0300),
      characteristics: [
        Characteristic(
          .manufacturerName, [.read, .write], handle: handle(0x0310),
          descriptors: [
            Descriptor(.clientCharacteristicConfiguration, value: [0, 0], handle: handle(0x0320))
          ])
      ]),
  ]

  static let small = [
    Service(
      .deviceInformation, kind: .secondary, endHandle: handle(0x0010),
      characteristics: [
        Characteristic(
          .manufacturerName, [.read, .notify, .indicate, .extendedProperties], value: text("BlueZ"),
          descriptors: [
            Descriptor(.characteristicUserDescription, value: text("Manufacturer Name")),
            Descriptor(.characteristicExtendedProperties, value: [1, 0]),
          ]),
        Characteristic(BluetoothUUID(0x2A28), [.read, .indicate], value: text("5.59")),
      ]),
    Service(
      .genericAccess, handle: handle(0xF010), includes: [0],
      characteristics: [
        Characteristic(.deviceName, .read, value: text("BlueZ Unit Tester")),
        Characteristic(
          BluetoothUUID(high: 0x0000_B009_0000_0000, low: 0x0123_4567_89AB_CDEF),
          [.read, .extendedProperties], value: [9],
          descriptors: [Descriptor(.characteristicExtendedProperties, value: [1, 0])]),
        Characteristic(.appearance, .read, value: [0, 0]),
      ]),
    Service(.deviceInformation, handle: handle(0xFFFF)),
  ]
}
