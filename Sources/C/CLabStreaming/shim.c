#define _GNU_SOURCE
#include "CLabStreaming.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "RINGTAP_LIBLSL"

#define FUNCTIONS(X)                                                                                                   \
  X(local_clock)                                                                                                       \
  X(create_streaminfo)                                                                                                 \
  X(get_desc)                                                                                                          \
  X(append_child)                                                                                                      \
  X(append_child_value)                                                                                                \
  X(destroy_streaminfo)                                                                                                \
  X(create_outlet)                                                                                                     \
  X(have_consumers)                                                                                                    \
  X(push_chunk_dtnp)                                                                                                   \
  X(push_sample_strtp)                                                                                                 \
  X(destroy_outlet)

static struct ringtap_lsl library;
static const char *problem = "not opened";
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Whether one of the files is there where the library looks for its settings.
static bool is_configured(void) {
  const char *named = getenv("LSLAPICFG"), *home = getenv("HOME");
  char own[PATH_MAX];
  snprintf(own, sizeof own, "%s/lsl_api/lsl_api.cfg", home == NULL ? "" : home);
  return named != NULL || access("lsl_api.cfg", R_OK) == 0 || access(own, R_OK) == 0 ||
         access("/etc/lsl_api/lsl_api.cfg", R_OK) == 0;
}

static void *open_library(void) {
  const char *path = getenv(VARIABLE);
  if (path == NULL || *path == 0) {
    void *handle = dlopen("liblsl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle != NULL) return handle;
    const char *text = dlerror();
    problem = text == NULL ? "dlopen failed" : strdup(text);
    // Its development package's name.
    return dlopen("liblsl.so", RTLD_NOW | RTLD_LOCAL);
  }
  // Whoever starts a program that has more rights than he does not choose what runs with them.
  if (secure_getenv(VARIABLE) == NULL) {
    problem = VARIABLE " is not heeded by a program with capabilities of its own";
    return NULL;
  }
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *text = handle == NULL ? dlerror() : NULL;
  if (handle == NULL) problem = text == NULL ? "dlopen failed" : strdup(text);
  return handle;
}

static void load(void) {
  void *handle = open_library();
  if (handle == NULL) return;
#define FIND(name)                                                                                                     \
  *(void **)&library.name = dlsym(handle, "lsl_" #name);                                                               \
  if (*(void **)&library.name == NULL) {                                                                               \
    problem = "it has no lsl_" #name;                                                                                  \
    return;                                                                                                            \
  }
  FUNCTIONS(FIND)
  // It tells of itself on standard error, unless its settings say otherwise: errors alone then. Since 1.17.
  void (*set_config_content)(const char *) = (void (*)(const char *))dlsym(handle, "lsl_set_config_content");
  if (set_config_content != NULL && !is_configured()) set_config_content("[log]\nlevel = -2\n");
  problem = NULL;
}

const struct ringtap_lsl *ringtap_lsl_load(const char **why) {
  pthread_once(&once, load);
  *why = problem;
  return problem == NULL ? &library : NULL;
}
