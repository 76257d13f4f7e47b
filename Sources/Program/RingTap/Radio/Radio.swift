public import BLEEmulation
public import BLEHost
import BLELinux
import Recording
import SensorSessions

/// A way to the radio: an adapter of this machine, a controller of your own on a transport, or an emulation.
///
/// Open one, and keep it for as long as the program uses Bluetooth: all scans and links of a radio share one receive
/// thread.
///
/// ```swift
/// let radio = try await Radio.open()
/// try await radio.withRing { ring in
///   for try await sample in ring.rawSamples.prefix(300) { print(sample) }
/// }
/// ```
///
/// What a radio is asked for has a scope: `withRing`, `withSensor` and `withConnection` have the link closed when they
/// return, whether their body returned or threw, or the task was cancelled. So do the sequences when their loop ends. There
/// is nothing to close by hand but the radio itself, and that only in a program that goes on without it.
public struct Radio: Sendable {
  /// A scan for one device: how long.
  public static let searchTime = Duration.seconds(30)

  let adapter: any Adapter
  let scans = ScanTurn()
  private let controller: ControllerPath?

  private init(_ adapter: any Adapter, _ controller: ControllerPath? = nil) {
    self.adapter = adapter
    self.controller = controller
  }

  // MARK: Opening

  /// Opens a radio by its name; without one, the kernel's first adapter that is up.
  ///
  /// | text | radio |
  /// |---|---|
  /// | `hci0` | an adapter of the kernel, shared with `bluetoothd` and other programs |
  /// | `hci-socket:0` | the same one alone, with our own host; it must be down |
  /// | `serial:/dev/ttyAMA0,115200` | a controller at a serial port; `,flow` after it for RTS/CTS |
  /// | `tcp-client:127.0.0.1:6402`, `unix:/tmp/controller` | a controller behind a socket |
  /// | `tcp-server:127.0.0.1:6402`, `pty:` | the same, once it connects |
  /// | `virtual:ring,rate=75` | an emulation in this process; all it can be: `VirtualPeripheralSpecification` |
  /// | `replay:packets.btsnoop` | a packet log in place of a controller; ends as a lost link when the log does |
  ///
  /// An adapter of the kernel needs CAP_NET_RAW to scan, beside `bluetoothd` CAP_NET_ADMIN; to connect by address it needs
  /// nothing.
  ///
  /// - Parameters:
  ///   - name: as above.
  ///   - note: hears what a person should know meanwhile, a line each, on the receive thread: it must not block.
  /// - Throws: `noBluetooth`, `noAdapter`, `adapterDown`, `adapterBusy`, `notPermitted`, `controller`; `unsuitable` for a
  ///   name that is none of these.
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

  /// Opens an emulation of these peripherals, in this process, as if they were in range: for tests, and for a sensor that
  /// is not at hand.
  ///
  /// ```swift
  /// let radio = try await Radio.open(emulating: [EmulatedSensor(StrapModel())])
  /// ```
  ///
  /// - Parameter peripherals: made for this radio, which keeps them.
  /// - Throws: what the system says where there are no more descriptors or threads.
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

  /// Ends what is still going on, and lets adapter, receive thread and emulation go.
  ///
  /// A program that ends need not call it. Nothing can be asked of this radio afterwards.
  public func close() async {
    await scans.end()
    await adapter.close()
    await controller?.emulation?.detach()
    adapter.loop.stop()
  }

  // MARK: Finding

  /// What advertises nearby, each as it is seen: the radio scans while a loop asks for more.
  ///
  /// ```swift
  /// for try await advertiser in radio.advertisers(seenWithin: .seconds(10)) {
  ///   print(advertiser.name ?? "-", advertiser.address, advertiser.rssi ?? 0)
  /// }
  /// ```
  ///
  /// An advertiser comes again when more of it is known, its name say, and not for every advertisement. The radio makes one
  /// scan at a time: to connect, or to begin another loop, ends this one.
  ///
  /// - Parameter duration: after which the sequence ends; `nil` for none.
  public func advertisers(seenWithin duration: Duration? = nil) -> Advertisers {
    Advertisers(self, duration)
  }

  /// Looks for a sensor of one kind; the scan has ended when this returns.
  ///
  /// ```swift
  /// let strap = try await radio.find(.heartRate)
  /// print(strap.address)
  /// ```
  ///
  /// - Parameters:
  ///   - kind: by what it advertises.
  ///   - name: an exact name to wait for instead, `nil` for the first of the kind.
  ///   - duration: how long to look.
  /// - Throws: `notFound` where none came, and whatever the adapter says.
  public func find<Sample>(
    _ kind: SensorKind<Sample>, named name: String? = nil, within duration: Duration = Radio.searchTime
  ) async throws(HostError) -> Advertiser {
    await scans.end()
    return try await SensorFinder.find(kind.search, named: name, on: adapter, within: duration)
  }
}
