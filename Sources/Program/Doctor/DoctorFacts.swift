import BLEHost
public import BLELinux
public import BLEWire

/// The input of `ringtap doctor`'s checks. The checks also read files below `root`.
public struct DoctorFacts: Sendable {
  /// An adapter's state as reported by the kernel's host on the management interface.
  public enum HostView: Hashable, Sendable {
    case settings(ControllerSettings)
    case refused(ManagementStatus)
    case silent
  }

  public enum ScanState: Hashable, Sendable {
    case idle
    case busy
    /// The query of the adapter failed, for this reason.
    case unknown(String)
  }

  public enum AdvertisingState: Hashable, Sendable {
    /// No advertising was detected.
    case off
    /// The kernel advertises, because of an advertising instance or a setting.
    case byKernel
    /// A program advertises with HCI commands. The kernel does not know which program.
    case byCommands
    case unknown(String)
  }

  /// A folder that replaces `/` in tests; otherwise empty.
  public var root = ""
  /// The error from opening a Bluetooth socket; `nil` if it succeeded.
  public var socketError: SystemError?
  public var adapters: [AdapterInfo] = []
  public var views: [UInt16: HostView] = [:]
  public var links: [UInt16: [AdapterLink]] = [:]
  /// Scan states of adapters that are up.
  public var scans: [UInt16: ScanState] = [:]
  public var advertising: [UInt16: AdvertisingState] = [:]
  public var handed: [InheritedSocket] = []
  /// The privileges at the start of this process, if it has dropped unneeded privileges since.
  public var start: ProcessRights.Start?
  /// Capabilities that one thread holds for the process.
  public var held: Set<ProcessFacts.Capability> = []
  public var filter = ProcessRights.FilterState.on
  public var isRoot = false
  /// The path of this program.
  public var program = "ringtap"
  /// The directory for captures.
  public var folder = "."
  public var freeByteCount: Result<Int, SystemError> = .success(.max)
  public var time = ReceiveTime(nanoseconds: .max)
  /// Facts about received packets that the kernel's sockets cannot report, each with the error.
  public var untold: [ReceiveFact: SystemError] = [:]

  public init() {}
}

extension DoctorFacts {
  /// Queries the kernel. With sufficient privileges, briefly scans on each adapter that is up, and sets the
  /// parameters of advertising that is off. Changes nothing else.
  ///
  /// - Parameters:
  ///   - adapter: the only adapter to check, by name or address.
  ///   - folder: the directory for captures.
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
    // `untold` stays empty if no socket can be opened.
    facts.untold = (try? ReceiveFact.untold()) ?? [:]
    do throws(SystemError) { facts.adapters = try AdapterInfo.all() } catch {
      facts.socketError = error
      return facts
    }
    for info in facts.adapters where info.isChosen(by: adapter) {
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
    // The view stays unknown if the query fails.
    try? ManagementSocket.ask(packet.span) { octets in
      guard let answer = ManagementAnswer(octets, to: command, of: index) else { return false }
      view = answer.view
      return true
    }
    return view
  }

  /// Detects whether another program is scanning. Starts and stops a scan, because no system call reports a
  /// scan.
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
  /// Detects advertising. The kernel reports its own advertising. To detect advertising started with HCI
  /// commands, sends a command that a controller rejects while advertising. An accepted command only sets
  /// parameters, which every program sets again before advertising.
  ///
  /// With advertising sets, checks only the set of ringtap's own raw mode, because the numbers of other sets
  /// are unknown.
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
      // The kernel is older than Linux 3.19, or denies the query. Query the controller instead.
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

/// The response to Read Controller Information: Command Complete (1) or Command Status (2). `mgmt-api.txt`.
private struct ManagementAnswer {
  let view: DoctorFacts.HostView

  /// Parses a packet; `nil` if the packet is not the response.
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

/// A version of Linux.
struct KernelVersion: Hashable, Comparable, CustomStringConvertible {
  let major: Int
  let minor: Int
  let patch: Int

  init(_ major: Int, _ minor: Int, _ patch: Int) {
    (self.major, self.minor, self.patch) = (major, minor, patch)
  }

  /// Parses a version such as `6.1.192` and ignores any suffix.
  init?(_ text: some StringProtocol) {
    let numbers = text.prefix { $0.isNumber || $0 == "." }.split(separator: ".").compactMap { Int($0) }
    guard numbers.count >= 2 else { return nil }
    self.init(numbers[0], numbers[1], numbers.count > 2 ? numbers[2] : 0)
  }

  /// Reads the version of the running kernel. Debian's release, such as `6.1.0-18-amd64`, names the ABI; the
  /// upstream version is in `/proc/version`.
  init?(root: String) {
    if let text = Files.text(at: "\(root)/proc/version") {
      let words = text.split(separator: " ")
      if let place = words.firstIndex(of: "Debian"), place + 1 < words.count,
        let version = KernelVersion(words[place + 1])
      {
        self = version
        return
      }
    }
    guard let release = Files.text(at: "\(root)/proc/sys/kernel/osrelease") else { return nil }
    self.init(release)
  }

  static func < (one: KernelVersion, other: KernelVersion) -> Bool {
    (one.major, one.minor, one.patch) < (other.major, other.minor, other.patch)
  }

  var description: String { "\(major).\(minor).\(patch)" }
}
