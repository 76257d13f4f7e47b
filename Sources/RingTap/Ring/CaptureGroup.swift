public import BLECore
public import BLEHost
import Synchronization

/// Captures of several rings at once over one adapter, each with its own directory and report.
public struct CaptureGroup: Sendable {
  /// How one of them ended.
  public struct Outcome: Sendable {
    public var target: RingCapture.Target
    public var directory: String
    public var result: Result<RingCapture.Result, HostError>
  }

  private let captures: [RingCapture]

  /// - Parameter captures: all over the same adapter, no two of the same ring or directory.
  public init(_ captures: [RingCapture]) { self.captures = captures }

  /// The directory of one ring in that of the group: its address, such as `70-CB-0D-00-A1-B2`.
  public static func directory(of address: DeviceAddress, in directory: String) -> String {
    directory + "/" + address.fileName
  }

  /// Runs all to their ends; one that fails does not disturb the others. Cancelling ends all like Ctrl-C.
  ///
  /// - Parameter progress: called whenever one has news, with the sums over all; `nil`: see `RingCapture.run`.
  /// - Returns: in the order of the captures.
  public func run(
    progress: (@Sendable (RingCapture.Progress) -> Void)? = nil
  ) async -> [Outcome] {
    let sums = Sums(captures.count)
    return await withTaskGroup(of: (Int, Outcome).self) { group in
      for (index, capture) in captures.enumerated() {
        let part = progress.map { progress in
          { @Sendable (news: RingCapture.Progress) in progress(sums.replacing(index, by: news)) }
        }
        group.addTask { (index, await Self.run(capture, part)) }
      }
      var outcomes: [(Int, Outcome)] = []
      for await outcome in group { outcomes.append(outcome) }
      return outcomes.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  private static func run(
    _ capture: RingCapture, _ progress: (@Sendable (RingCapture.Progress) -> Void)?
  ) async -> Outcome {
    let result: Result<RingCapture.Result, HostError>
    do throws(HostError) { result = .success(try await capture.run(progress: progress)) } catch {
      result = .failure(error)
    }
    return Outcome(target: capture.target, directory: capture.directory, result: result)
  }

  /// The latest news of each.
  private final class Sums: Sendable {
    private let latest: Mutex<[RingCapture.Progress?]>

    init(_ count: Int) { latest = Mutex([RingCapture.Progress?](repeating: nil, count: count)) }

    func replacing(_ index: Int, by news: RingCapture.Progress) -> RingCapture.Progress {
      latest.withLock { latest in
        latest[index] = news
        return latest.reduce(into: news.none) { $0.add($1) }
      }
    }
  }
}

extension RingCapture.Progress {
  fileprivate var none: Self {
    Self(samples: 0, malformed: 0, lost: 0, gaps: 0, withoutLink: 0, elapsed: .zero)
  }

  fileprivate mutating func add(_ other: Self?) {
    guard let other else { return }
    samples += other.samples
    malformed += other.malformed
    lost += other.lost
    gaps += other.gaps
    withoutLink += other.withoutLink
    elapsed = max(elapsed, other.elapsed)
  }
}
