import BLEHost
public import BLELinux
public import BLEWire

/// What the checks of `ringtap doctor` judge by. What files tell is read under `root`; what only calls tell is here.
public struct DoctorFacts: Sendable {
  /// What the kernel's host says of an adapter on its management interface.
  public enum HostView: Hashable, Sendable {
    case settings(ControllerSettings)
    case refused(ManagementStatus)
    case silent
  }

  public enum ScanState: Hashable, Sendable {
    case idle
    case busy
    /// Nobody could be asked.
    case unknown(String)
  }

  public enum AdvertisingState: Hashable, Sendable {
    /// As far as can be told.
    case off
    /// By instances of the kernel's, or its own setting.
    case byKernel
    /// By commands of HCI: the kernel does not know whose.
    case byCommands
    case unknown(String)
  }

  /// A folder that stands for `/`; empty for the real one.
  public var root = ""
  /// What a Bluetooth socket fails with.
  public var socketError: SystemError?
  public var adapters: [AdapterInfo] = []
  public var views: [UInt16: HostView] = [:]
  public var links: [UInt16: [AdapterLink]] = [:]
  /// Of adapters that are up.
  public var scans: [UInt16: ScanState] = [:]
  public var advertising: [UInt16: AdvertisingState] = [:]
  public var handed: [InheritedSocket] = []
  /// How this process was started, where it has given up what it does not need.
  public var start: ProcessRights.Start?
  /// The capabilities that one thread keeps for all.
  public var held: Set<ProcessFacts.Capability> = []
  public var filter = ProcessRights.FilterState.on
  public var isRoot = false
  /// The path of this program.
  public var program = "ringtap"
  /// Where something is to be recorded.
  public var folder = "."
  public var freeByteCount: Result<Int, SystemError> = .success(.max)
  public var time = ReceiveTime(nanoseconds: .max)
  /// What sockets do not tell of what they receive.
  public var untold: [ReceiveFact: SystemError] = [:]

  public init() {}
}

extension DoctorFacts {
  /// Asks the kernel. Changes nothing, but for a scan of a moment on each adapter that is up, and parameters of advertising
  /// that is off, where this process may.
  ///
  /// - Parameters:
  ///   - adapter: the only one to look at.
  ///   - folder: where captures will go.
  public static func gather(adapter: String?, folder: String) async -> DoctorFacts {
    var facts = DoctorFacts()
    facts.program = ProcessFacts.ownPath ?? "ringtap"
    facts.folder = folder
    facts.time = SystemClock.now()
    facts.start = ProcessRights.start
    facts.held = ProcessRights.held
    facts.filter = ProcessRights.filterState
    facts.isRoot = ProcessFacts.isRoot
    do throws(SystemError) {
      try Files.checkWritable(folder)
      facts.freeByteCount = .success(try Files.freeByteCount(at: folder))
    } catch { facts.freeByteCount = .failure(error) }
    facts.handed = InheritedSockets.all
    // Without a socket at all there is nothing to receive by.
    facts.untold = (try? ReceiveFact.untold()) ?? [:]
    do throws(SystemError) { facts.adapters = try AdapterInfo.all() } catch {
      facts.socketError = error
      return facts
    }
    for info in facts.adapters where adapter == nil || info.name == adapter {
      facts.views[info.index] = view(of: info.index)
      facts.links[info.index] = (try? AdapterLink.all(index: info.index)) ?? []
      guard info.isUp, case .settings(let settings)? = facts.views[info.index] else { continue }
      facts.scans[info.index] = await scan(info)
      facts.advertising[info.index] = settings.isAdvertising ? .byKernel : await advertising(info)
    }
    return facts
  }

  private static func view(of index: UInt16) -> HostView {
    let command = ReadControllerInformation.opcode.rawValue
    let none: [UInt8] = []
    let packet = [UInt8](encoding: ManagementPacket.headerByteCount) {
      ManagementPacket(code: command, index: index, parameters: none.span).encode(into: &$0)
    }
    var view = HostView.silent
    // Whatever it fails with: then nothing is known of it.
    try? ManagementSocket.ask(packet.span) { octets in
      guard let answer = ManagementAnswer(octets, to: command, of: index) else { return false }
      view = answer.view
      return true
    }
    return view
  }

  /// Tries to scan, and stops at once: no call tells whether somebody does.
  private static func scan(_ info: AdapterInfo) async -> ScanState {
    do throws(HostError) {
      let kernel = KernelAdapter(info, on: try EventLoop.start())
      do throws(HostError) {
        try await kernel.startScan(.passive, timing: .continuous, duplicates: .reportAll) { _, _ in }
        try await kernel.stopScan()
      } catch {
        await kernel.close()
        throw error
      }
      await kernel.close()
      return .idle
    } catch {
      if case .scanBusy = error { return .busy }
      return .unknown("\(error)")
    }
  }
}

extension DoctorFacts {
  /// What the kernel advertises it tells. Of what commands of HCI have switched on nothing does: the controller refuses what it
  /// may not do meanwhile. Where that is not so, parameters are set that whoever advertises sets again.
  ///
  /// With advertising sets only the one of our own raw mode is asked for: others' numbers nobody knows.
  private static func advertising(_ info: AdapterInfo) async -> AdvertisingState {
    do throws(HostError) {
      let kernel = KernelAdapter(info, on: try EventLoop.start())
      let result: Result<AdvertisingState, HostError>
      do throws(HostError) { result = .success(try await advertising(kernel)) } catch {
        result = .failure(error)
      }
      await kernel.close()
      return try result.get()
    } catch { return .unknown("\(error)") }
  }

  private static func advertising(_ kernel: KernelAdapter) async throws(HostError) -> AdvertisingState {
    do throws(HostError) {
      let reply = try await kernel.manage(ReadAdvertisingFeatures())
      if let features = try? AdvertisingFeatures(validating: reply.span), features.count > 0 {
        return .byKernel
      }
    } catch {
      // The kernel is older than Linux 3.19, or tells root only: the controller is asked all the same.
    }
    let reply = try await kernel.command(LEReadLocalSupportedFeatures())
    let features = try? LEReadLocalSupportedFeatures.Reply(validating: reply.span).features
    do throws(HostError) {
      if features?.hasExtendedAdvertising == true {
        try await kernel.command(LERemoveAdvertisingSet(.besideKernel))
      } else {
        try await kernel.command(LESetAdvertisingParameters(kind: .nonConnectable, interval: .slow))
      }
    } catch {
      guard case .commandRefused(_, let status) = error else { throw error }
      return status == .commandDisallowed ? .byCommands : .off
    }
    return .off
  }
}

/// The answer to Read Controller Information: Command Complete (1) or Command Status (2). `mgmt-api.txt`.
private struct ManagementAnswer {
  let view: DoctorFacts.HostView

  /// `nil` for any other packet.
  init?(_ octets: Span<UInt8>, to command: UInt16, of index: UInt16) {
    guard let packet = try? ManagementPacket(validating: octets), packet.index == index,
      packet.code == 1 || packet.code == 2, packet.parameters.count >= 3,
      UInt16(packet.parameters[0]) | UInt16(packet.parameters[1]) << 8 == command
    else { return nil }
    let status = ManagementStatus(rawValue: packet.parameters[2])
    guard status == .success, packet.code == 1 else {
      view = .refused(status)
      return
    }
    let settings = try? ControllerSettings(informationReply: packet.parameters.extracting(3...))
    view = settings.map { .settings($0) } ?? .silent
  }
}
