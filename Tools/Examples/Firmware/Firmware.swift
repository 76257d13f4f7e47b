import BLESensors
import BLEStack
import BLEWire

/// The API that firmware in Embedded Swift would use. `Tools/check` compiles it, so that generic functions
/// meet types of firmware.
@main struct Firmware {
  static func main() {
    serve()
    bringUp()
    decode([0x10, 72, 0x00, 0x04])
    decode([0x00])
    let (address, service) = (DeviceAddress("70:CB:0D:00:A1:B2"), BluetoothUUID("180d"))
    print((address?.description ?? "-") + " " + (service?.description ?? "-"))
  }

  /// A battery's level, asked for as a client would.
  private static func serve() {
    let level = GATTCharacteristicDescription(.batteryLevel, [.read, .notify], value: [77])
    var database = GATTServerDatabase([GATTServiceDescription(.battery, characteristics: [level])])
    var server = ATTServer(database: database)
    let request = [UInt8](encoding: 3) { ReadRequest(handle: AttributeHandle(3)).encode(into: &$0) }
    let response = [UInt8](encoding: ATT.maximumMTU) { output in
      server.receive(request.span, database: &database, into: &output) { _, _ in nil }
    }
    show("read", response)
  }

  /// The first packet for a controller.
  private static func bringUp() {
    var host = HCIHost()
    host.start()
    show("reset", host.nextPacket(now: MonotonicTime(nanoseconds: 0)) ?? [])
    let isQueued = host.submit(Disconnect(ConnectionHandle(1))) != nil
    print("before it is ready, a command is " + (isQueued ? "queued" : "refused"))
  }

  private static func decode(_ value: [UInt8]) {
    do throws(WireError) {
      let measurement = try HeartRateMeasurement(decoding: value.span)
      let again = HeartRateMeasurement(
        beatsPerMinute: measurement.beatsPerMinute, rrIntervals: RRIntervals([1024 as UInt16]))
      print("beats per minute: " + String(again.beatsPerMinute))
    } catch {
      print(error.description)
    }
  }

  private static func show(_ what: String, _ octets: [UInt8]) {
    print(octets.reduce(what + ":") { $0 + " " + String($1, radix: 16) })
  }
}
