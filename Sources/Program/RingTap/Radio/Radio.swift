public import BLEEmulation
public import BLEHost
import BLELinux
public import BLEPeripheral
package import BLEReplay
public import BLEStack
import BLEWire
package import Recording
import SensorSessions

/// Access to a radio: an adapter of this machine, a controller on a transport, or an emulation.
///
/// Open one radio and keep it while the program uses Bluetooth: all scans and links of a radio share one
/// receive thread.
///
/// ```swift
/// let radio = try await Radio.open()
/// try await radio.withRing { ring in
///   for try await sample in ring.rawSamples.prefix(300) { print(sample) }
/// }
/// ```
///
/// Each operation of a radio has a scope. `withRing`, `withSensor` and `withConnection` close the link before
/// they return, even if their body throws or the task is cancelled. Sequences stop when their loop ends.
/// Close the radio itself only in a program that continues without the radio.
public struct Radio: Sendable {
  /// Default timeout for finding a device.
  public static let searchTime = Duration.seconds(30)

  package let adapter: any Adapter
  let scans = ScanTurn()
  /// The controller at the other end of a virtual transport.
  package let emulation: ControllerAttachment?
  /// A log that is replayed in place of a controller.
  package let replay: ReplayTransport?
  /// The log of packets between the host and its controller.
  package let log: PacketLogFile?

  package init(_ adapter: any Adapter, _ controller: ControllerPath? = nil, log: PacketLogFile? = nil) {
    self.adapter = adapter
    (emulation, replay) = (controller?.emulation, controller?.replay)
    self.log = log
  }

  // MARK: Opening

  /// Opens a radio by name. Without a name, opens the kernel's first adapter that is up.
  ///
  /// | text | radio |
  /// |---|---|
  /// | `hci0` | a kernel adapter, shared with `bluetoothd` and other programs |
  /// | `00:1A:7D:DA:71:13` | the same by its address, which does not change when it is plugged in again |
  /// | `hci-socket:0` | the same adapter, used exclusively by the library's own host; it must be down |
  /// | `serial:/dev/ttyAMA0,115200` | a controller at a serial port; append `,flow` for RTS/CTS |
  /// | `tcp-client:127.0.0.1:6402`, `unix:/tmp/controller` | a controller behind a socket |
  /// | `tcp-server:127.0.0.1:6402`, `pty:` | the same, once it connects |
  /// | `virtual:ring,rate=75` | an emulation in this process; see `VirtualPeripheralSpecification` |
  /// | `replay:packets.btsnoop` | a packet log instead of a controller; the link is lost when the log ends |
  ///
  /// A kernel adapter needs CAP_NET_RAW to scan, or CAP_NET_ADMIN if `bluetoothd` runs. Connecting by address
  /// needs no privilege.
  ///
  /// - Parameters:
  ///   - name: the radio's name, as in the table.
  ///   - note: receives messages for the user, one line each, on the receive thread; must not block.
  /// - Throws: `noBluetooth`, `noAdapter`, `severalAdapters`, `adapterDown`, `adapterBusy`, `notPermitted`, `controller`;
  ///   `unsuitable` for an invalid name.
  public static func open(
    _ name: String? = nil, note: @escaping @Sendable (String) -> Void = { _ in }
  ) async throws(HostError) -> Radio {
    guard let name, name.contains(":"), AdapterName(name) == nil else {
      let info = try KernelAdapter.find(name)
      return Radio(ModeChoice.here().adapter(info, on: try EventLoop.start(), note: note))
    }
    let specification: TransportSpecification
    do throws(TransportSpecification.ParseError) {
      specification = try TransportSpecification(name)
    } catch { throw .unsuitable(error.description) }
    return try await open(specification.description) { loop throws(HostError) in
      try await ControllerPath.open(specification, on: loop, waiting: { note("waiting at \($0)") })
    }
  }

  /// Opens an emulation, in this process, of peripherals in range. Use it for tests, and for development
  /// without a sensor.
  ///
  /// ```swift
  /// let radio = try await Radio.open(emulating: [EmulatedSensor(StrapModel())])
  /// ```
  ///
  /// - Parameter peripherals: peripherals created for this radio, which takes ownership of them.
  /// - Throws: the system's error if no descriptor or thread is available.
  public static func open(
    emulating peripherals: sending [any VirtualPeripheral]
  ) async throws(HostError) -> Radio {
    let loop = try EventLoop.start()
    let controller = VirtualController(peripherals: peripherals)
    let path: ControllerPath
    do throws(HostError) { path = try await ControllerPath.emulating(controller, on: loop) } catch {
      loop.stop()
      throw error
    }
    return try await open("virtual", path, on: loop)
  }

  private static func open(
    _ name: String, _ reach: (EventLoop) async throws(HostError) -> ControllerPath
  ) async throws(HostError) -> Radio {
    let loop = try EventLoop.start()
    let path: ControllerPath
    do throws(HostError) { path = try await reach(loop) } catch {
      loop.stop()
      throw error
    }
    return try await open(name, path, on: loop)
  }

  private static func open(
    _ name: String, _ path: ControllerPath, on loop: EventLoop
  ) async throws(HostError) -> Radio {
    do throws(HostError) {
      return Radio(try await HostAdapter.open(path.transport, name: name, on: loop), path)
    } catch {
      await path.emulation?.detach()
      loop.stop()
      throw error
    }
  }

  /// Ends running scans, and releases the adapter, the receive thread and the emulation.
  ///
  /// A program need not call this before it exits. The radio cannot be used afterwards.
  public func close() async {
    await scans.end()
    await adapter.close()
    await emulation?.detach()
    adapter.loop.stop()
  }

  // MARK: Finding

  /// Returns a sequence of the devices that advertise nearby. The radio scans while a loop iterates.
  ///
  /// ```swift
  /// for try await advertiser in radio.advertisers(seenWithin: .seconds(10)) {
  ///   print(advertiser.name ?? "-", advertiser.address, advertiser.rssi ?? 0)
  /// }
  /// ```
  ///
  /// The sequence returns an advertiser again when new data is known, such as its name, but not for every
  /// advertisement. A radio makes one scan at a time: connecting, or starting another loop, ends the scan.
  ///
  /// - Parameter duration: time limit after which the sequence ends; `nil` for no limit.
  public func advertisers(seenWithin duration: Duration? = nil) -> Advertisers {
    Advertisers(self, duration)
  }

  /// Finds a sensor of a kind. The scan has ended when this returns.
  ///
  /// ```swift
  /// let strap = try await radio.find(.heartRate)
  /// print(strap.address)
  /// ```
  ///
  /// - Parameters:
  ///   - kind: the kind. Its sensors are recognised by their advertisements.
  ///   - name: the exact name to find; `nil` for the first sensor of the kind.
  ///   - duration: timeout.
  /// - Throws: `notFound` if no sensor was found in time; the adapter's errors.
  public func find<Sample>(
    _ kind: SensorKind<Sample>, named name: String? = nil, within duration: Duration = Radio.searchTime
  ) async throws(HostError) -> Advertiser {
    await scans.end()
    return try await SensorFinder.find(kind.search, named: name, on: adapter, within: duration)
  }
}

// MARK: - Advertising

extension Radio {
  /// Advertises as a device while `body` runs. Other hosts can discover it, connect, read, write and
  /// subscribe.
  ///
  /// ```swift
  /// let rate = GATTCharacteristicDescription(.heartRateMeasurement, .notify)
  /// let strap = GATTServiceDescription(.heartRate, characteristics: [rate])
  /// try await radio.advertise(DeviceAdvertisement(name: "Strap", services: [.heartRate]), services: [strap]) { server in
  ///   let handle = await server.handle(of: .heartRateMeasurement)!
  ///   for try await sample in values { try await server.notify([0x00, sample.beatsPerMinute], of: handle) }
  /// }
  /// ```
  ///
  /// When `body` returns or throws, or the task is cancelled, `advertise` stops advertising and closes the
  /// links before it returns. A kernel adapter needs CAP_NET_RAW, and also CAP_NET_ADMIN if `bluetoothd`
  /// runs. The guide "Being the sensor" explains which requests `bluetoothd` answers itself.
  ///
  /// - Parameters:
  ///   - advertisement: the data for scanners. The advertised name is also the value of the Device Name
  ///     characteristic.
  ///   - services: the services in the order of their handles. Generic Access and Generic Attribute are added
  ///     in front.
  ///   - limit: maximum number of connected centrals.
  ///   - body: receives the server. The server's `events` report the centrals' actions.
  /// - Throws: `unsuitable` on a replayed log, or if another program is advertising; `notPermitted`;
  ///   `commandRefused` if the controller cannot advertise; errors of `body`.
  public func advertise<Value>(
    _ advertisement: DeviceAdvertisement, services: [GATTServiceDescription], upTo limit: Int = 8,
    _ body: (GATTServer) async throws -> Value
  ) async throws -> Value {
    guard let advertising = adapter.advertising else {
      throw HostError.unsuitable(
        "\(adapter.name) cannot advertise: it is a log"
      )
    }
    return try await advertising.advertise(advertisement, services: services, upTo: limit, body)
  }
}

// MARK: - Emulation

extension Radio {
  /// Opens an emulation, in this process, of one sensor of a kind in range.
  ///
  /// ```swift
  /// let radio = try await Radio.open(emulating: .heartRate)
  /// ```
  ///
  /// The sensor starts sending when a central first subscribes on a link. A custom kind sends the values of
  /// its `emulation`.
  ///
  /// - Parameters:
  ///   - kind: the kind to emulate.
  ///   - rate: values per second, above 0. For a ring, the total of all three kinds of frames. The default is
  ///     1, and 300 for a ring.
  /// - Throws: the system's error if no descriptor or thread is available.
  public static func open<Sample>(
    emulating kind: SensorKind<Sample>, valuesPerSecond rate: Double? = nil
  ) async throws(HostError) -> Radio {
    switch kind.definition.emulation {
    case .specification(let text):
      return try await open("virtual:" + text + (rate.map { ",rate=\($0)" } ?? ""))
    case .values(let name, let service, let characteristic, let value):
      var configuration = EmulatedSensor.Configuration()
      configuration.ticksPerSecond = rate ?? configuration.ticksPerSecond
      let model = CharacteristicModel(
        name: name, service: service, characteristic: characteristic, value: value)
      return try await open(emulating: [EmulatedSensor(model, configuration)])
    }
  }
}

/// A sensor that notifies one characteristic: the emulation of a custom `SensorKind`.
private struct CharacteristicModel: SensorModel {
  var name: String
  var address = DeviceAddress(bits: 0x70CB_0D00_5E45, type: .public)
  let service: BluetoothUUID
  let characteristic: BluetoothUUID
  let value: @Sendable (Int) -> [UInt8]

  var services: [GATTServiceDescription] {
    .genericServices(name: name) + [
      GATTServiceDescription(
        service, characteristics: [GATTCharacteristicDescription(characteristic, .notify)])
    ]
  }

  /// Flags (general discoverable, no BR/EDR), and the complete list of service UUIDs. Core Supplement 11,
  /// Part A, 1.
  var advertisingData: [UInt8] {
    let isShort = service.short != nil
    let uuid =
      isShort ? [service.octet(12), service.octet(13)] : (0..<16).map { service.octet($0) }
    return [2, 0x01, 0x06, UInt8(uuid.count + 1), isShort ? 0x03 : 0x07] + uuid
  }

  /// The complete local name.
  var scanResponse: [UInt8] { [UInt8(name.utf8.count + 1), 0x09] + name.utf8 }

  mutating func measure(_ tick: SensorTick) -> [SensorValue] {
    [SensorValue(characteristic, Array(value(tick.number).prefix(tick.valueByteCount)))]
  }
}
