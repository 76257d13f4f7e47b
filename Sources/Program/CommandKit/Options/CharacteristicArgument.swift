package import ArgumentParser
package import BLEHost
package import BLEStack
package import BLEWire

/// A characteristic on the command line: a UUID, or a value handle with the prefix `0x`.
package enum CharacteristicArgument: ExpressibleByArgument, Sendable {
  case uuid(BluetoothUUID)
  case handle(AttributeHandle)

  package init?(argument: String) {
    if argument.lowercased().hasPrefix("0x") {
      guard let handle = UInt16(argument.dropFirst(2), radix: 16), handle > 0 else { return nil }
      self = .handle(AttributeHandle(handle))
    } else {
      guard let uuid = BluetoothUUID(argument) else { return nil }
      self = .uuid(uuid)
    }
  }

  package static let help = ArgumentHelp(
    "The characteristic: a UUID such as 2a19, or a handle such as 0x0012.", valueName: "characteristic")

  /// The operation that a command performs. If several characteristics share the UUID, the command uses a
  /// characteristic that supports the operation.
  package enum Use: Sendable {
    case read, write, listen

    var properties: CharacteristicProperties {
      switch self {
      case .read: .read
      case .write: [.write, .writeWithoutResponse, .authenticatedSignedWrites]
      case .listen: [.notify, .indicate]
      }
    }

    fileprivate var ability: String {
      switch self {
      case .read: "can be read"
      case .write: "can be written"
      case .listen: "notify or indicate"
      }
    }
  }

  /// Passes the characteristic's value handle to `body`. If the handle was discovered on an earlier link and
  /// the device rejects it, runs discovery again and calls `body` once more. A handle given by the user is
  /// used without discovery.
  package func use<Value: Sendable>(
    _ connection: Connection, to use: Use,
    _ body: (AttributeHandle, GATTDatabase.Characteristic?) async throws(GATTError) -> Value
  ) async throws -> Value {
    if case .handle(let handle) = self {
      return try await failing { () async throws(GATTError) in try await body(handle, nil) }
    }
    let found = try await characteristic(connection, to: use)
    do throws(GATTError) { return try await body(found.valueHandle, found) } catch {
      guard case .refused = error, await connection.usesEarlierDiscovery else {
        return try await failing { () async throws(GATTError) in throw error }
      }
      await connection.attributesChanged(in: .all)
    }
    let again = try await characteristic(connection, to: use)
    return try await failing { () async throws(GATTError) in try await body(again.valueHandle, again) }
  }

  /// Returns the characteristic. Runs discovery unless a cached result is known to be valid.
  ///
  /// - Throws: if several characteristics with that UUID support the operation; the user must give a handle.
  package func characteristic(_ connection: Connection, to use: Use) async throws
    -> GATTDatabase.Characteristic
  {
    let all = try await failing { () async throws(GATTError) -> [GATTDatabase.Characteristic] in
      switch self {
      case .uuid(let uuid): try await connection.characteristics(uuid)
      case .handle(let handle):
        try await connection.attributes().characteristic(valueHandle: handle).map { [$0] } ?? []
      }
    }
    let able = all.filter { !$0.properties.isDisjoint(with: use.properties) }
    guard let found = able.first ?? all.first else {
      let what =
        switch self {
        case .uuid(let uuid): uuid.shortText
        case .handle(let handle): "with value handle \(handle.rawValue.handleText)"
        }
      throw Failure(
        "the device has no characteristic \(what); see what it has with `ringtap gatt \(connection.peer)`"
      )
    }
    if case .uuid(let uuid) = self, able.count > 1 || able.isEmpty && all.count > 1 {
      let handles = (able.isEmpty ? all : able).map(\.valueHandle.rawValue.handleText).joined(separator: ", ")
      throw Failure(
        "the device has \(counted(all.count, "characteristic")) \(uuid.shortText)"
          + (able.isEmpty ? ", none of which \(use.ability)" : ", \(able.count) of which \(use.ability)")
          + ": give the handle of one instead of the UUID (\(handles))")
    }
    return try await failing { () async throws(GATTError) in try await connection.withDescriptors(found) }
  }
}
