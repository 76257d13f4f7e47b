#define _GNU_SOURCE
#include "CMosquitto.h"

#include <dlfcn.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const int ringtap_mqtt_errno = MOSQ_ERR_ERRNO;
const int ringtap_mqtt_no_address = MOSQ_ERR_EAI;
const int ringtap_mqtt_tls = MOSQ_ERR_TLS;

#define FUNCTIONS(X)                                                                                                   \
  X(lib_init)                                                                                                          \
  X(new)                                                                                                               \
  X(destroy)                                                                                                           \
  X(int_option)                                                                                                        \
  X(username_pw_set)                                                                                                   \
  X(tls_set)                                                                                                           \
  X(tls_opts_set)                                                                                                      \
  X(threaded_set)                                                                                                      \
  X(will_set_v5)                                                                                                       \
  X(max_inflight_messages_set)                                                                                         \
  X(connect_v5_callback_set)                                                                                           \
  X(disconnect_v5_callback_set)                                                                                        \
  X(publish_v5_callback_set)                                                                                           \
  X(subscribe_v5_callback_set)                                                                                         \
  X(message_v5_callback_set)                                                                                           \
  X(log_callback_set)                                                                                                  \
  X(property_add_int32)                                                                                                \
  X(property_free_all)                                                                                                 \
  X(connect_bind_v5)                                                                                                   \
  X(loop)                                                                                                              \
  X(publish_v5)                                                                                                        \
  X(subscribe_v5)                                                                                                      \
  X(unsubscribe_v5)                                                                                                    \
  X(disconnect_v5)                                                                                                     \
  X(strerror)                                                                                                          \
  X(reason_string)

// The library's functions by the names that they have there without `mosquitto_`.
#define DECLARE(name) __typeof__(mosquitto_##name) *name;
static struct {
  FUNCTIONS(DECLARE)
} library;

static const char *problem = "not opened";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
  void *handle = dlopen("libmosquitto.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *text = dlerror();
    problem = text == NULL ? "dlopen failed" : strdup(text);
    return;
  }
#define FIND(name)                                                                                                     \
  *(void **)&library.name = dlsym(handle, "mosquitto_" #name);                                                         \
  if (library.name == NULL) {                                                                                          \
    problem = "libmosquitto.so.1 is older than 1.6: it has no mosquitto_" #name;                                       \
    return;                                                                                                            \
  }
  FUNCTIONS(FIND)
  problem = library.lib_init() == MOSQ_ERR_SUCCESS ? NULL : "mosquitto_lib_init failed";
}

const char *ringtap_mqtt_load(void) {
  pthread_once(&once, load);
  return problem;
}

struct ringtap_mqtt {
  struct mosquitto *client;
  const struct ringtap_mqtt_events *events;
  void *context;
  char *host;
  int port;
  int keep_alive_seconds;
  uint32_t session_seconds;
  uint32_t packet_byte_count;
  bool is_version_5;
};

static void on_connect(struct mosquitto *client, void *self, int reason, int flags, const mosquitto_property *props) {
  struct ringtap_mqtt *mqtt = self;
  mqtt->events->connected(mqtt->context, reason);
}

static void on_disconnect(struct mosquitto *client, void *self, int code, const mosquitto_property *props) {
  struct ringtap_mqtt *mqtt = self;
  mqtt->events->disconnected(mqtt->context, code);
}

static void on_publish(struct mosquitto *client, void *self, int message, int reason, const mosquitto_property *props) {
  struct ringtap_mqtt *mqtt = self;
  mqtt->events->acknowledged(mqtt->context, message, reason);
}

static void on_subscribe(struct mosquitto *client, void *self, int message, int count, const int *granted,
                         const mosquitto_property *props) {
  struct ringtap_mqtt *mqtt = self;
  for (int index = 0; index < count; index++) mqtt->events->subscribed(mqtt->context, granted[index]);
}

static void on_message(struct mosquitto *client, void *self, const struct mosquitto_message *message,
                       const mosquitto_property *props) {
  struct ringtap_mqtt *mqtt = self;
  mqtt->events->message(mqtt->context, message->topic, message->payload, (size_t)message->payloadlen, message->qos,
                        message->retain);
}

static void on_log(struct mosquitto *client, void *self, int level, const char *text) {
  struct ringtap_mqtt *mqtt = self;
  if (level == MOSQ_LOG_ERR) mqtt->events->error(mqtt->context, text);
}

static int set_up(struct ringtap_mqtt *mqtt, const struct ringtap_mqtt_options *options) {
  int code = library.int_option(mqtt->client, MOSQ_OPT_PROTOCOL_VERSION,
                                mqtt->is_version_5 ? MQTT_PROTOCOL_V5 : MQTT_PROTOCOL_V311);
  // Answers to the broker leave with the next turn of the loop, not before a message was handed over.
  if (code == MOSQ_ERR_SUCCESS) code = library.threaded_set(mqtt->client, true);
  if (code == MOSQ_ERR_SUCCESS) code = library.max_inflight_messages_set(mqtt->client, 0);
  if (code == MOSQ_ERR_SUCCESS && options->user != NULL)
    code = library.username_pw_set(mqtt->client, options->user, options->password);
  if (code == MOSQ_ERR_SUCCESS && options->is_tls) {
    const char *folder = options->ca_file == NULL ? "/etc/ssl/certs" : NULL;
    code = library.tls_set(mqtt->client, options->ca_file, folder, NULL, NULL, NULL);
    if (code == MOSQ_ERR_SUCCESS) code = library.tls_opts_set(mqtt->client, 1, NULL, NULL);
  }
  if (code == MOSQ_ERR_SUCCESS && options->will_topic != NULL)
    code = library.will_set_v5(mqtt->client, options->will_topic, (int)options->will_count, options->will, 1, true, NULL);
  library.connect_v5_callback_set(mqtt->client, on_connect);
  library.disconnect_v5_callback_set(mqtt->client, on_disconnect);
  library.publish_v5_callback_set(mqtt->client, on_publish);
  library.subscribe_v5_callback_set(mqtt->client, on_subscribe);
  library.message_v5_callback_set(mqtt->client, on_message);
  library.log_callback_set(mqtt->client, on_log);
  return code;
}

struct ringtap_mqtt *ringtap_mqtt_new(const struct ringtap_mqtt_options *options, const struct ringtap_mqtt_events *events,
                                      void *context, int *code) {
  struct ringtap_mqtt *mqtt = calloc(1, sizeof *mqtt);
  *code = MOSQ_ERR_NOMEM;
  if (mqtt == NULL) return NULL;
  mqtt->events = events;
  mqtt->context = context;
  mqtt->host = strdup(options->host);
  mqtt->port = options->port;
  mqtt->keep_alive_seconds = options->keep_alive_seconds;
  mqtt->session_seconds = options->session_seconds;
  mqtt->packet_byte_count = options->packet_byte_count;
  mqtt->is_version_5 = options->is_version_5;
  mqtt->client = library.new(options->client, options->session_seconds == 0, mqtt);
  *code = mqtt->host == NULL || mqtt->client == NULL ? MOSQ_ERR_NOMEM : set_up(mqtt, options);
  if (*code == MOSQ_ERR_SUCCESS) return mqtt;
  ringtap_mqtt_free(mqtt);
  return NULL;
}

int ringtap_mqtt_connect(struct ringtap_mqtt *mqtt) {
  mosquitto_property *properties = NULL;
  int code = MOSQ_ERR_SUCCESS;
  if (mqtt->is_version_5) {
    code = library.property_add_int32(&properties, MQTT_PROP_MAXIMUM_PACKET_SIZE, mqtt->packet_byte_count);
    if (code == MOSQ_ERR_SUCCESS && mqtt->session_seconds > 0)
      code = library.property_add_int32(&properties, MQTT_PROP_SESSION_EXPIRY_INTERVAL, mqtt->session_seconds);
  }
  if (code == MOSQ_ERR_SUCCESS)
    code = library.connect_bind_v5(mqtt->client, mqtt->host, mqtt->port, mqtt->keep_alive_seconds, NULL, properties);
  library.property_free_all(&properties);
  return code;
}

int ringtap_mqtt_loop(struct ringtap_mqtt *mqtt, int timeout_milliseconds) {
  return library.loop(mqtt->client, timeout_milliseconds, 1);
}

int ringtap_mqtt_publish(struct ringtap_mqtt *mqtt, const char *topic, const uint8_t *octets, size_t count,
                         bool is_retained, int *message) {
  return library.publish_v5(mqtt->client, message, topic, (int)count, octets, 1, is_retained, NULL);
}

int ringtap_mqtt_subscribe(struct ringtap_mqtt *mqtt, const char *topic) {
  return library.subscribe_v5(mqtt->client, NULL, topic, 1, 0, NULL);
}

int ringtap_mqtt_unsubscribe(struct ringtap_mqtt *mqtt, const char *topic) {
  return library.unsubscribe_v5(mqtt->client, NULL, topic, NULL);
}

int ringtap_mqtt_disconnect(struct ringtap_mqtt *mqtt, bool publishes_will) {
  // Before version 5 the only way is to say nothing.
  if (publishes_will && !mqtt->is_version_5) return MOSQ_ERR_SUCCESS;
  return library.disconnect_v5(mqtt->client, publishes_will ? MQTT_RC_DISCONNECT_WITH_WILL_MSG : 0, NULL);
}

void ringtap_mqtt_free(struct ringtap_mqtt *mqtt) {
  if (mqtt == NULL) return;
  if (mqtt->client != NULL) library.destroy(mqtt->client);
  free(mqtt->host);
  free(mqtt);
}

const char *ringtap_mqtt_error_text(int code) { return library.strerror(code); }
const char *ringtap_mqtt_reason_text(int reason) { return library.reason_string(reason); }
