import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CommandKit
import Glibc
import LiveView
import Recording
import Synchronization

/// Option that disables the live view, on every command that records.
struct ViewOptions: ParsableArguments {
  @Flag(
    name: [.short, .long],
    help: "Print messages only, without a live view.")
  var quiet = false

  /// Runs `body` with a live view on standard error, or without one if standard error is not a terminal.
  func showing<Value>(
    _ limits: RecordingLimits, into directory: String, _ body: (LiveView?) async throws -> Value
  ) async throws -> Value {
    // A dumb terminal cannot move its cursor.
    guard !quiet, Console.isErrorTerminal, ProcessFacts.environment("TERM") != "dumb" else {
      return try await body(nil)
    }
    let view = LiveView(limits, into: directory)
    let drawing = Task { await view.draw() }
    Console.openView(isColored: (ProcessFacts.environment("NO_COLOR") ?? "").isEmpty)
    let value: Value
    do { value = try await body(view) } catch {
      drawing.cancel()
      Console.closeView(erasing: true)
      throw error
    }
    drawing.cancel()
    let hasStreamed = await drawing.value
    Console.closeView(erasing: !hasStreamed)
    return value
  }
}

/// The live view of a recording: `LiveFeed` collects its data, `LiveScreen` lays it out, `Console` prints it.
final class LiveView: Sendable {
  private struct State: Sendable {
    var shown = LiveState()
    var advertisers: [DeviceAddress: Advertiser] = [:]
    var feeds: [LiveFeed] = []
  }

  /// Interval between frames, equal to the interval at which the writer's thread wakes up.
  private static let period = Duration.milliseconds(250)
  /// Number of frames between queries to the event loop, which runs on the receive thread.
  private static let framesEach = 4
  /// Longest time between two frames of a running process. After a longer time, the process was stopped, and
  /// another program may have used the terminal.
  private static let longestPause = Duration.seconds(2)

  private let state: Mutex<State>
  private let characters = LiveCharacters(
    locale: ["LC_ALL", "LC_CTYPE", "LANG"].map { ProcessFacts.environment($0) },
    terminal: ProcessFacts.environment("TERM"))

  fileprivate init(_ limits: RecordingLimits, into directory: String) {
    var state = State()
    state.shown.duration = limits.duration.map { Int($0.components.seconds) }
    state.shown.count = limits.count
    state.shown.directory = directory
    self.state = Mutex(state)
  }

  func use(_ adapter: any Adapter) {
    state.withLock { $0.shown.radio = "\(adapter.name), \(adapter.mode) mode" }
  }

  func look(for what: String) { state.withLock { $0.shown.search = what } }

  func found(_ advertiser: Advertiser) { state.withLock { $0.advertisers[advertiser.address] = advertiser } }

  /// Creates the feed for the recording of a device.
  func feed(of address: DeviceAddress, name: String? = nil) -> LiveFeed {
    state.withLock { state in
      let advertiser = state.advertisers[address]
      let feed = LiveFeed(address, name: name ?? advertiser?.name, rssi: advertiser?.rssi)
      state.feeds.append(feed)
      return feed
    }
  }

  /// Draws frames until the task is cancelled, then a last frame.
  ///
  /// - Returns: whether the last frame shows a stream.
  fileprivate func draw() async -> Bool {
    var standings: [LiveStanding] = []
    var frame = 0
    var last = SystemClock.monotonic()
    repeat {
      let feeds = state.withLock { $0.feeds }
      if frame.isMultiple(of: Self.framesEach) || standings.count != feeds.count {
        standings = []
        for feed in feeds { standings.append(await feed.standing()) }
      }
      frame += 1
      let now = SystemClock.monotonic()
      defer { last = now }
      guard Terminal.isInForeground(of: .error) else {
        Console.forgetView()
        continue
      }
      if last.advanced(by: Self.longestPause) < now { Console.leaveView() }
      if TerminalKeys.pressed().contains(UInt8(ascii: "q")) { kill(getpid(), SIGINT) }
      show(feeds, standings, now)
    } while (try? await Task.sleep(for: Self.period)) != nil
    let feeds = state.withLock { state in
      state.shown.isOver = true
      return state.feeds
    }
    guard standings.count == feeds.count, Terminal.isInForeground(of: .error) else { return false }
    let now = SystemClock.monotonic()
    show(feeds, standings, now)
    return feeds.contains { $0.elapsed(at: now) != nil }
  }

  private func show(_ feeds: [LiveFeed], _ standings: [LiveStanding], _ now: MonotonicTime) {
    let size = Terminal.size(of: .error) ?? (80, 24)
    var shown = state.withLock { $0.shown }
    shown.devices = zip(feeds, standings).map { $0.device($1, columns: 2 * size.columns, at: now) }
    shown.elapsed = feeds.compactMap { $0.elapsed(at: now) }.max().map { Int($0.components.seconds) }
    let screen = LiveScreen(columns: size.columns, rows: size.rows, characters)
    Console.drawView(screen.lines(shown), size)
  }
}
