package import BLELinux
internal import CMosquitto
import Glibc

/// What a broker, or the way to it, refused.
package enum MQTTError: Error, Hashable, Sendable {
  /// There is no client library, or it is too old: why, as the dynamic linker says it.
  case noLibrary(String)
  /// The host's name has no address.
  case noAddress
  case system(SystemError)
  /// The library's texts about the encrypted connection.
  case tls(String)
  /// A reason code of the broker's, 0x80 or above (MQTT 5.0, 2.4), and its name.
  case refused(reason: Int, name: String)
  /// In the library's words.
  case other(String)
}

/// What became of a connection, in the order in which it happened.
package enum MQTTEvent: Sendable {
  case connected
  /// It cannot be used any more.
  case ended(MQTTError)
  /// The broker's answer to a publication: 0, 0x10 (nobody is subscribed), or why it refuses.
  case acknowledged(message: Int, reason: Int)
  /// The QoS that the broker grants to a subscription, or why it refuses.
  case subscribed(reason: Int)
}

/// A connection to an MQTT broker, by Mosquitto's client library (`libmosquitto.so.1`), which is opened at first use.
///
/// For one thread, which calls `turn` again and again. All is sent with QoS 1, by MQTT 5.0 or 3.1.1. It is made
/// for one connection: what was not acknowledged before that ended is forgotten with it.
@safe package final class MQTTClient {
  /// Who connects, and where.
  package struct Options: Hashable, Sendable {
    package var client: String
    package var host: String
    package var port: Int
    package var user: String?
    package var password: String?
    package var isEncrypted = false
    /// PEM; `nil`: those certificates that the system trusts.
    package var certificateFile: String?
    /// How long the broker keeps the subscriptions and what they brought; 0: as long as the connection.
    package var sessionSeconds = 0
    /// A longer packet the broker keeps to itself; by MQTT 5 only.
    package var packetByteCount: Int
    /// By MQTT 5.0; else by 3.1.1, which has no limit of packets and tells no reasons.
    package var isVersion5 = true
    /// Published, retained, where the connection breaks off.
    package var will: (topic: String, octets: [UInt8])? {
      get { willTopic.map { ($0, willOctets) } }
      set { (willTopic, willOctets) = (newValue?.topic, newValue?.octets ?? []) }
    }
    private var willTopic: String?
    private var willOctets: [UInt8] = []

    package init(client: String, host: String, port: Int, packetByteCount: Int) {
      self.client = client
      self.host = host
      self.port = port
      self.packetByteCount = packetByteCount
    }
  }

  /// Seconds without a word after which either side asks whether the other is there.
  private static let keepAliveSeconds: CInt = 15

  /// A message: topic, octets, whether the broker had kept it. Called within `turn`, before the broker hears that it
  /// came. The broker forgets it then: what a kill loses after that its publisher sends again, as no receipt told of it.
  package var onMessage: (String, Span<UInt8>, Bool) -> Void = { _, _, _ in }
  private var events: [MQTTEvent] = []
  private var problems: [String] = []
  private var client: OpaquePointer?
  private let table: UnsafeMutablePointer<ringtap_mqtt_events>

  /// - Throws: `noLibrary`, or `tls` where the file of certificates cannot be used.
  package init(_ options: Options) throws(MQTTError) {
    // SAFETY: the text is constant.
    if let problem = unsafe ringtap_mqtt_load() { throw .noLibrary(unsafe String(cString: problem)) }
    unsafe table = .allocate(capacity: 1)
    unsafe table.initialize(to: Self.callbacks)
    // SAFETY: the context is used within calls of this object's methods only, so it lives.
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    var code: CInt = 0
    unsafe client = Self.withOptions(options) { unsafe ringtap_mqtt_new($0, table, context, &code) }
    guard unsafe client != nil else {
      if options.isEncrypted, code != 1 {
        throw .tls("cannot read \(options.certificateFile ?? "/etc/ssl/certs")")
      }
      throw .other(Self.text(code))
    }
  }

  deinit {
    // SAFETY: nobody uses either any more.
    unsafe ringtap_mqtt_free(client)
    unsafe table.deallocate()
  }

  /// Connects to the host, which may take minutes where nothing answers; the broker's own answer is an event.
  package func connect() throws(MQTTError) {
    problems.removeAll()
    // SAFETY: the client is there until the end of this object.
    let code = unsafe ringtap_mqtt_connect(client)
    let number = lastError()
    if code != 0 { throw error(code, number) }
  }

  /// Waits until something comes, at most so long, and sends what is to be sent.
  ///
  /// - Returns: what happened.
  package func turn(milliseconds: Int) -> [MQTTEvent] {
    // SAFETY: as above; the callbacks come within this call.
    let code = unsafe ringtap_mqtt_loop(client, CInt(milliseconds))
    let number = lastError()
    defer { events.removeAll(keepingCapacity: true) }
    if code != 0, !hasEnded { events.append(.ended(error(code, number))) }
    return events
  }

  private var hasEnded: Bool {
    events.contains { if case .ended = $0 { true } else { false } }
  }

  /// - Returns: the number by which the broker's answer names it.
  package func publish(_ octets: Span<UInt8>, to topic: String, isRetained: Bool = false) throws(MQTTError)
    -> Int
  {
    var message: CInt = 0
    // SAFETY: topic and octets are copied by the call.
    let code = unsafe octets.withUnsafeBufferPointer { octets in
      unsafe ringtap_mqtt_publish(client, topic, octets.baseAddress, octets.count, isRetained, &message)
    }
    if code != 0 { throw error(code, lastError()) }
    return Int(message)
  }

  package func subscribe(to topic: String) throws(MQTTError) {
    // SAFETY: the topic is copied by the call.
    let code = unsafe ringtap_mqtt_subscribe(client, topic)
    if code != 0 { throw error(code, lastError()) }
  }

  package func unsubscribe(from topic: String) throws(MQTTError) {
    // SAFETY: as above.
    let code = unsafe ringtap_mqtt_unsubscribe(client, topic)
    if code != 0 { throw error(code, lastError()) }
  }

  /// Says good-bye, and waits until that has left.
  ///
  /// - Parameter publishesWill: as if the connection had broken off.
  package func disconnect(publishesWill: Bool = false) {
    // SAFETY: as above.
    if unsafe ringtap_mqtt_disconnect(client, publishesWill) == 0 { _ = turn(milliseconds: 100) }
  }

  /// What a reason code of a broker means.
  package static func name(ofReason reason: Int) -> String {
    // SAFETY: only where the library is there; the texts are constant.
    unsafe ringtap_mqtt_load() == nil
      ? unsafe String(cString: ringtap_mqtt_reason_text(CInt(reason))) : "reason \(reason)"
  }

  // MARK: Words

  private static func text(_ code: CInt) -> String {
    // SAFETY: the library is there; the texts are constant.
    unsafe String(cString: ringtap_mqtt_error_text(code))
  }

  private func error(_ code: CInt, _ number: CInt) -> MQTTError {
    defer { problems.removeAll() }
    if code >= 0x80 { return .refused(reason: Int(code), name: Self.name(ofReason: Int(code))) }
    if code == ringtap_mqtt_tls || !problems.isEmpty {
      return .tls(problems.isEmpty ? Self.text(code) : problems.joined(separator: "; "))
    }
    if code == ringtap_mqtt_no_address { return .noAddress }
    if code == ringtap_mqtt_errno, number != 0 {
      return .system(SystemError(call: "connect", number: number))
    }
    return .other(Self.text(code))
  }

  // MARK: Callbacks

  private static func withOptions(
    _ options: Options, _ body: (UnsafePointer<ringtap_mqtt_options>) -> OpaquePointer?
  ) -> OpaquePointer? {
    // SAFETY: all pointers are used within `body`, inside the closures that lend them.
    unsafe options.client.withCString { client in
      unsafe options.host.withCString { host in
        unsafe withText(options.user) { user in
          unsafe withText(options.password) { password in
            unsafe withText(options.certificateFile) { file in
              unsafe withText(options.will?.topic) { topic in
                unsafe (options.will?.octets ?? []).withUnsafeBufferPointer { will in
                  var value = unsafe ringtap_mqtt_options(
                    client: client, host: host, port: CInt(options.port), user: user, password: password,
                    is_tls: options.isEncrypted, ca_file: file,
                    session_seconds: UInt32(options.sessionSeconds),
                    packet_byte_count: UInt32(options.packetByteCount), is_version_5: options.isVersion5,
                    keep_alive_seconds: keepAliveSeconds, will_topic: topic, will: will.baseAddress,
                    will_count: will.count)
                  return unsafe body(&value)
                }
              }
            }
          }
        }
      }
    }
  }

  private static func withText<Value>(
    _ text: String?, _ body: (UnsafePointer<CChar>?) -> Value
  ) -> Value {
    // SAFETY: the pointer is used within `body`.
    guard let text else { return body(nil) }
    return unsafe text.withCString { unsafe body($0) }
  }

  /// SAFETY: of each: the context is the client whose method is running; texts and octets are valid within the call.
  private static var callbacks: ringtap_mqtt_events {
    unsafe ringtap_mqtt_events(
      connected: { context, reason in
        let client = unsafe MQTTClient.of(context)
        guard reason == 0 else {
          return client.events.append(
            .ended(.refused(reason: Int(reason), name: MQTTClient.name(ofReason: Int(reason)))))
        }
        client.events.append(.connected)
      },
      disconnected: { context, code in
        let number = lastError()
        let client = unsafe MQTTClient.of(context)
        if code != 0, !client.hasEnded { client.events.append(.ended(client.error(code, number))) }
      },
      acknowledged: { context, message, reason in
        unsafe MQTTClient.of(context).events.append(
          .acknowledged(message: Int(message), reason: Int(reason)))
      },
      subscribed: { context, reason in
        unsafe MQTTClient.of(context).events.append(.subscribed(reason: Int(reason)))
      },
      message: { context, topic, octets, count, _, isRetained in
        guard let topic = unsafe topic else { return }
        let payload = unsafe UnsafeBufferPointer(start: octets, count: octets == nil ? 0 : count)
        unsafe MQTTClient.of(context).onMessage(String(cString: topic), payload.span, isRetained)
      },
      error: { context, text in
        let client = unsafe MQTTClient.of(context)
        if let text = unsafe text, client.problems.count < 4 {
          unsafe client.problems.append(String(cString: text))
        }
      })
  }

  private static func of(_ context: UnsafeMutableRawPointer?) -> MQTTClient {
    // SAFETY: see `callbacks`.
    guard let context = unsafe context else { preconditionFailure("the context is always given") }
    return unsafe Unmanaged<MQTTClient>.fromOpaque(context).takeUnretainedValue()
  }
}
