import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// Sets a server's values from standard input, one JSON object per line.
struct ServedValues: Sendable {
  let server: GATTServer

  init(_ server: GATTServer) { self.server = server }

  /// Sets values until the input ends or the task is cancelled.
  func run() async {
    guard let loop = try? EventLoop.start() else { return }
    defer { loop.stop() }
    let input = InputReader(on: loop)
    var number = 0
    while !Task.isCancelled {
      number += 1
      do {
        guard let line = try await input.next() else { return }
        guard case .text(let text) = line else {
          throw Problem("longer than \(counted(InputLines.octets.count, "byte"))")
        }
        guard text.contains(where: { !$0.isWhitespace }) else { continue }
        try await take(text)
      } catch let problem as Problem {
        Console.note(failure: "line \(number) of standard input: \(problem.text)")
      } catch is CancellationError {
        return
      } catch {
        return Console.note(failure: "standard input: \(error)")
      }
    }
  }

  private struct Problem: Error {
    let text: String
    init(_ text: String) { self.text = text }
  }

  private func take(_ line: String) async throws {
    guard let object = try? JSONDocument(Array(line.utf8)), case .object = object else {
      throw Problem("not a JSON object")
    }
    guard let value = object["value"]?.text.flatMap({ [UInt8](hex: $0) }) else {
      throw Problem("no \"value\" in hexadecimal")
    }
    let handle = try await handle(of: object)
    guard let attribute = await server.attributes.first(where: { $0.handle == handle }),
      attribute.role == .value
    else { throw Problem("\(handle.rawValue.handleText) is not a characteristic value") }
    guard value.count <= attribute.maximumByteCount else {
      throw Problem("more than \(counted(attribute.maximumByteCount, "byte"))")
    }
    await server.setValue(value, of: handle)
    try await push(value, of: handle)
  }

  private func handle(of object: JSONDocument) async throws -> AttributeHandle {
    if let number = object["handle"] {
      let digits = number.text.flatMap {
        $0.hasPrefix("0x") ? UInt16($0.dropFirst(2), radix: 16) : UInt16($0)
      }
      guard let raw = number.integer(UInt16.self) ?? digits else {
        throw Problem("\"handle\" is not a number")
      }
      return AttributeHandle(raw)
    }
    guard let text = object["uuid"]?.text, let uuid = BluetoothUUID(text) else {
      throw Problem("neither \"handle\" nor \"uuid\"")
    }
    guard let handle = await server.handle(of: uuid) else {
      throw Problem("there is no characteristic \(text)")
    }
    return handle
  }

  /// Sends a value to each subscribed central concurrently, as a notification or an indication. Returns when
  /// all sends are done.
  private func push(_ value: [UInt8], of handle: AttributeHandle) async throws {
    let (notified, indicated) = (
      await server.subscribers(of: handle), await server.subscribers(of: handle, .indication)
    )
    await withTaskGroup(of: Void.self) { group in
      for central in notified {
        group.addTask { try? await server.notify(value, of: handle, to: central) }
      }
      for central in indicated where !notified.contains(central) {
        group.addTask { try? await server.indicate(value, of: handle, to: central) }
      }
    }
    try Task.checkCancellation()
  }
}

/// Reads lines on a separate thread, because reading may block.
private actor InputReader {
  private let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  private var lines = InputLines()

  init(on loop: EventLoop) { self.loop = loop }

  func next() throws(SystemError) -> InputLines.Line? { try lines.next() }
}
