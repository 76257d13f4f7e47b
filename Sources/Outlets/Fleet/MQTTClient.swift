import BLELinux
internal import CMosquitto
import Glibc

/// An error of the broker or of the connection to the broker, without a text for the user.
enum MQTTError: Error, Hashable, Sendable {
  /// The client library is missing or too old. The text is the dynamic linker's message.
  case noLibrary(String)
  /// The host name could not be resolved.
  case noAddress
  case system(SystemError)
  /// A TLS error, with the library's message.
  case tls(String)
  /// The broker's reason code, 0x80 or above (MQTT 5.0, 2.4), and its name.
  case refused(reason: Int, name: String)
  /// Any other error, with the library's message.
  case other(String)
}

/// Events of a connection, in the order in which they occurred.
package enum MQTTEvent: Sendable {
  case connected
  /// The connection has ended and cannot be used any more.
  case ended(PublishProblem)
  /// The broker's response to a publication: 0, 0x10 (no subscribers), or an error.
  case acknowledged(message: Int, reason: Int)
  /// The broker's response to a subscription: the granted QoS, or an error.
  case subscribed(reason: Int)
}

/// A connection to an MQTT broker through Mosquitto's client library (`libmosquitto.so.1`). The library is
/// loaded at first use.
///
/// Only one thread may use the connection; it must call `turn` repeatedly. All messages are sent with QoS 1,
/// over MQTT 5.0 or 3.1.1. An instance is for one connection: when the connection ends, unacknowledged
/// messages are discarded.
@safe package final class MQTTClient {
  /// Client ID, broker, and connection settings.
  package struct Options: Hashable, Sendable {
    package var client: String
    package var broker: BrokerAddress
    /// PEM file of CA certificates; `nil` for the system's certificates.
    package var certificates: String?
    /// Time in seconds for which the broker keeps the subscriptions and queues messages after a
    /// disconnection. With 0, the subscriptions end with the connection.
    package var sessionSeconds = 0
    /// Maximum packet size in bytes. The broker drops larger packets instead of sending them. MQTT 5 only.
    package var packetByteCount: Int
    package var version: ProtocolVersion
    /// The last will: a message that the broker publishes and retains if the connection is lost.
    package var will: (topic: String, octets: [UInt8])? {
      get { willTopic.map { ($0, willOctets) } }
      set { (willTopic, willOctets) = (newValue?.topic, newValue?.octets ?? []) }
    }
    private var willTopic: String?
    private var willOctets: [UInt8] = []

    package init(
      client: String, _ broker: BrokerAddress, certificates: String?, packetByteCount: Int,
      _ version: ProtocolVersion
    ) {
      (self.client, self.broker, self.certificates) = (client, broker, certificates)
      (self.packetByteCount, self.version) = (packetByteCount, version)
    }

    fileprivate func problem(_ error: MQTTError) -> PublishProblem {
      broker.problem(error, certificates: certificates)
    }
  }

  /// Seconds without traffic after which either side sends a ping.
  private static let keepAliveSeconds: CInt = 15

  /// Handler of messages: topic, payload, and whether the broker had retained the message. `turn` calls the
  /// handler before it acknowledges the message. If the process is killed after the acknowledgement, the
  /// broker has discarded the message, but the publisher resends rows without a receipt.
  package var onMessage: (String, Span<UInt8>, Bool) -> Void = { _, _, _ in }
  private let options: Options
  private var events: [MQTTEvent] = []
  private var problems: [String] = []
  private var client: OpaquePointer?
  private let table: UnsafeMutablePointer<ringtap_mqtt_events>

  /// Creates a client without connecting.
  ///
  /// - Throws: if the client library is missing, or the certificate file cannot be used.
  package init(_ options: Options) throws(PublishProblem) {
    self.options = options
    // SAFETY: the text is constant.
    if let problem = unsafe ringtap_mqtt_load() {
      throw options.problem(.noLibrary(unsafe String(cString: problem)))
    }
    unsafe table = .allocate(capacity: 1)
    unsafe table.initialize(to: Self.callbacks)
    // SAFETY: the context is used only during calls of this object's methods, while the object is alive.
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    var code: CInt = 0
    unsafe client = Self.withOptions(options) { unsafe ringtap_mqtt_new($0, table, context, &code) }
    guard unsafe client != nil else {
      let isUnreadable = options.broker.isEncrypted && code != 1
      throw options.problem(
        isUnreadable
          ? .tls("cannot read \(options.certificates ?? "/etc/ssl/certs")") : .other(Self.text(code)))
    }
  }

  deinit {
    // SAFETY: no other reference to the client or the context exists.
    unsafe ringtap_mqtt_free(client)
    unsafe table.deallocate()
  }

  /// Connects to the host, which may take minutes if the host does not respond. The broker's response arrives
  /// as an event.
  package func connect() throws(PublishProblem) {
    problems.removeAll()
    // SAFETY: the client exists until this object is deinitialized.
    let code = unsafe ringtap_mqtt_connect(client)
    let number = lastError()
    if code != 0 { throw error(code, number) }
  }

  /// Sends pending data, and waits up to `milliseconds` for data to arrive.
  ///
  /// - Returns: the events that occurred.
  package func turn(milliseconds: Int) -> [MQTTEvent] {
    // SAFETY: the client exists until this object is deinitialized; callbacks run only during this call.
    let code = unsafe ringtap_mqtt_loop(client, CInt(milliseconds))
    let number = lastError()
    defer { events.removeAll(keepingCapacity: true) }
    if code != 0, !hasEnded { events.append(.ended(error(code, number))) }
    return events
  }

  private var hasEnded: Bool {
    events.contains { if case .ended = $0 { true } else { false } }
  }

  /// Publishes a message.
  ///
  /// - Returns: the message number, which the broker's acknowledgement repeats.
  package func publish(_ octets: Span<UInt8>, to topic: String, isRetained: Bool = false)
    throws(PublishProblem) -> Int
  {
    var message: CInt = 0
    // SAFETY: the call copies topic and payload.
    let code = unsafe octets.withUnsafeBufferPointer { octets in
      unsafe ringtap_mqtt_publish(client, topic, octets.baseAddress, octets.count, isRetained, &message)
    }
    if code != 0 { throw error(code, lastError()) }
    return Int(message)
  }

  package func subscribe(to topic: String) throws(PublishProblem) {
    // SAFETY: the call copies the topic.
    let code = unsafe ringtap_mqtt_subscribe(client, topic)
    if code != 0 { throw error(code, lastError()) }
  }

  package func unsubscribe(from topic: String) throws(PublishProblem) {
    // SAFETY: the call copies the topic.
    let code = unsafe ringtap_mqtt_unsubscribe(client, topic)
    if code != 0 { throw error(code, lastError()) }
  }

  /// Disconnects, and waits until the packet has been sent.
  ///
  /// - Parameter publishesWill: whether the broker publishes the will, as for a lost connection.
  package func disconnect(publishesWill: Bool = false) {
    // SAFETY: the client exists until this object is deinitialized.
    if unsafe ringtap_mqtt_disconnect(client, publishesWill) == 0 { _ = turn(milliseconds: 100) }
  }

  /// Returns the name of a reason code.
  package static func name(ofReason reason: Int) -> String {
    // SAFETY: called only if the library is loaded; the texts are constant.
    unsafe ringtap_mqtt_load() == nil
      ? unsafe String(cString: ringtap_mqtt_reason_text(CInt(reason))) : "reason \(reason)"
  }

  // MARK: Texts

  private static func text(_ code: CInt) -> String {
    // SAFETY: the library is loaded; the texts are constant.
    unsafe String(cString: ringtap_mqtt_error_text(code))
  }

  private func error(_ code: CInt, _ number: CInt) -> PublishProblem {
    defer { problems.removeAll() }
    if code >= 0x80 { return refusal(code) }
    if code == ringtap_mqtt_tls || !problems.isEmpty {
      return options.problem(.tls(problems.isEmpty ? Self.text(code) : problems.joined(separator: "; ")))
    }
    if code == ringtap_mqtt_no_address { return options.problem(.noAddress) }
    if code == ringtap_mqtt_errno, number != 0 {
      return options.problem(.system(SystemError(call: "connect", number: number)))
    }
    return options.problem(.other(Self.text(code)))
  }

  private func refusal(_ reason: CInt) -> PublishProblem {
    options.problem(.refused(reason: Int(reason), name: Self.name(ofReason: Int(reason))))
  }

  // MARK: Callbacks

  private static func withOptions(
    _ options: Options, _ body: (UnsafePointer<ringtap_mqtt_options>) -> OpaquePointer?
  ) -> OpaquePointer? {
    // SAFETY: all pointers are used within `body`, inside the closures that provide them.
    unsafe options.client.withCString { client in
      unsafe options.broker.host.withCString { host in
        unsafe withText(options.broker.user) { user in
          unsafe withText(options.broker.password) { password in
            unsafe withText(options.certificates) { file in
              unsafe withText(options.will?.topic) { topic in
                unsafe (options.will?.octets ?? []).withUnsafeBufferPointer { will in
                  var value = unsafe ringtap_mqtt_options(
                    client: client, host: host, port: CInt(options.broker.port), user: user,
                    password: password,
                    is_tls: options.broker.isEncrypted, ca_file: file,
                    session_seconds: UInt32(options.sessionSeconds),
                    packet_byte_count: UInt32(options.packetByteCount), is_version_5: options.version.is5,
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

  /// SAFETY: in each callback, the context is the client whose method is running. Texts and bytes are valid
  /// during the callback.
  private static var callbacks: ringtap_mqtt_events {
    unsafe ringtap_mqtt_events(
      connected: { context, reason in
        let client = unsafe MQTTClient.of(context)
        guard reason == 0 else { return client.events.append(.ended(client.refusal(reason))) }
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
