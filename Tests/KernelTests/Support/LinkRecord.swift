import Foundation

/// The member `connection` of a `session.json`: the parameters that were requested, that are in force, that
/// changed and that were refused.
struct LinkRecord: Decodable {
  struct State: Decodable, Equatable {
    var handle: Int?
    var intervalMs: Double?
    var latency: Int?
    var supervisionTimeoutMs: Int?
    var transmitPhy: String?
    var receivePhy: String?
    var transmitDataLength: Int?
    var receiveDataLength: Int?
  }
  struct Request: Decodable {
    var minimumIntervalMs: Double?
    var maximumIntervalMs: Double?
    var phy: String?
    var dataLength: Int?
  }
  struct Refusal: Decodable {
    var what: String
    var why: String
  }
  struct Reason: Decodable, Equatable {
    var code: Int
    var name: String
  }

  var asked: Request
  var inForce: State
  var changes: [State]
  var refused: [Refusal]
  var disconnectReason: Reason?

  /// - Parameter path: path of a capture.
  static func read(_ path: String) throws -> LinkRecord {
    struct Session: Decodable { var connection: LinkRecord }
    let text = try Data(contentsOf: URL(filePath: path + "/session.json"))
    return try JSONDecoder().decode(Session.self, from: text).connection
  }
}
