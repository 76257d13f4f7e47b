// Eclipse Mosquitto's client library, opened when it is first needed: a recording does not depend on it, and a machine
// without it gets a message instead of a program that does not start.
//
// Swift cannot call it as it is: what dlsym gives has no type there. Headers of Debian's libmosquitto-dev, 2.0.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A connection to a broker, by MQTT 5 or 3.1.1. One thread uses it.
struct ringtap_mqtt;

/// What the library tells, always within `ringtap_mqtt_loop` or `ringtap_mqtt_connect`. Texts and octets are gone after
/// the call.
struct ringtap_mqtt_events {
  /// The broker's answer to a connect: 0 or its reason code.
  void (*connected)(void *context, int reason);
  /// `code` is the library's own (`MOSQ_ERR_…`), or a reason code of the broker's from 0x80 on.
  void (*disconnected)(void *context, int code);
  /// The broker's answer to a publication.
  void (*acknowledged)(void *context, int message, int reason);
  /// The broker's answer to a subscription: the QoS that it grants, or a reason code from 0x80 on.
  void (*subscribed)(void *context, int reason);
  void (*message)(void *context, const char *topic, const uint8_t *octets, size_t count, int qos, bool is_retained);
  /// What went wrong, in the words of the library.
  void (*error)(void *context, const char *text);
};

/// Who connects, where, and how. Texts may be gone after the call; NULL for what is not there.
struct ringtap_mqtt_options {
  const char *client;
  const char *host;
  int port;
  const char *user;
  const char *password;
  /// Encrypted, and the broker's certificate is checked.
  bool is_tls;
  /// PEM; NULL: those that the system trusts.
  const char *ca_file;
  /// How long the broker keeps what is subscribed and not delivered; 0: it forgets.
  uint32_t session_seconds;
  /// A packet that is longer the broker keeps to itself (MQTT 5.0, 3.1.2.11.4). Version 3.1.1 has no such thing.
  uint32_t packet_byte_count;
  bool is_version_5;
  int keep_alive_seconds;
  /// What the broker publishes, retained, when this connection breaks off; NULL: nothing.
  const char *will_topic;
  const uint8_t *will;
  size_t will_count;
};

/// Opens the library, once.
///
/// Returns NULL, or why it cannot be used: a text that stays.
const char *ringtap_mqtt_load(void);

/// Returns NULL without memory. `events` must outlive it.
struct ringtap_mqtt *ringtap_mqtt_new(const struct ringtap_mqtt_options *options, const struct ringtap_mqtt_events *events,
                                      void *context, int *code);

/// Waits for the transport's connection, not for the broker's answer. Returns 0 or the library's code.
int ringtap_mqtt_connect(struct ringtap_mqtt *client);

/// Waits for so long at most, takes what came, and sends. Returns 0 or the library's code; then it is not connected.
int ringtap_mqtt_loop(struct ringtap_mqtt *client, int timeout_milliseconds);

/// QoS 1. Returns 0 or the library's code.
int ringtap_mqtt_publish(struct ringtap_mqtt *client, const char *topic, const uint8_t *octets, size_t count,
                         bool is_retained, int *message);

/// QoS 1.
int ringtap_mqtt_subscribe(struct ringtap_mqtt *client, const char *topic);
int ringtap_mqtt_unsubscribe(struct ringtap_mqtt *client, const char *topic);

/// Says that it goes, and whether the broker is to publish the will for all that. `ringtap_mqtt_loop` sends it.
int ringtap_mqtt_disconnect(struct ringtap_mqtt *client, bool publishes_will);

void ringtap_mqtt_free(struct ringtap_mqtt *client);

/// Constant texts.
const char *ringtap_mqtt_error_text(int code);
const char *ringtap_mqtt_reason_text(int reason);

/// `MOSQ_ERR_ERRNO`: errno says more.
extern const int ringtap_mqtt_errno;
/// `MOSQ_ERR_EAI`: the name was not found.
extern const int ringtap_mqtt_no_address;
/// `MOSQ_ERR_TLS`.
extern const int ringtap_mqtt_tls;
