public import BLEEmulation
public import BLEHost
import BLELinux
import Recording
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
/// they return, even if their body throws or the task is cancelled. Sequences stop when their loop ends. The
/// radio itself must be closed only in a program that continues without it.
public struct Radio: Sendable {
  /// Default timeout for finding a device.
  public static let searchTime = Duration.seconds(30)

  let adapter: any Adapter
  let scans = ScanTurn()
  private let controller: ControllerPath?

  private init(_ adapter: any Adapter, _ controller: ControllerPath? = nil) {
    self.adapter = adapter
    self.controller = controller
  }

  // MARK: Opening

  /// Opens a radio by name. Without a name, opens the kernel's first adapter that is up.
  ///
  /// | text | radio |
  /// |---|---|
  /// | `hci0` | a kernel adapter, shared with `bluetoothd` and other programs |
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
  /// - Throws: `noBluetooth`, `noAdapter`, `adapterDown`, `adapterBusy`, `notPermitted`, `controller`;
  ///   `unsuitable` for an invalid name.
  public static func open(
    _ name: String? = nil, note: @escaping @Sendable (String) -> Void = { _ in }
  ) async throws(HostError) -> Radio {
    guard let name, name.contains(":") else {
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

  /// Opens an emulation of these peripherals, in this process, as if they were in range. Use it for tests,
  /// and for development without a sensor.
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
  /// A program that exits need not call this. The radio cannot be used afterwards.
  public func close() async {
    await scans.end()
    await adapter.close()
    await controller?.emulation?.detach()
    adapter.loop.stop()
  }

  // MARK: Finding

  /// Returns the devices that advertise nearby, as they are found. The radio scans while a loop iterates.
  ///
  /// ```swift
  /// for try await advertiser in radio.advertisers(seenWithin: .seconds(10)) {
  ///   print(advertiser.name ?? "-", advertiser.address, advertiser.rssi ?? 0)
  /// }
  /// ```
  ///
  /// An advertiser is returned again when more is known about it, such as its name, but not for every
  /// advertisement. A radio makes one scan at a time: connecting or starting another loop ends this one.
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
