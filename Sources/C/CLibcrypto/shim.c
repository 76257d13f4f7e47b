#define _GNU_SOURCE
#include "CLibcrypto.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

// What <openssl/bn.h> and <openssl/ec.h> declare, OpenSSL 3: that series keeps its binary interface. None of it is
// deprecated. BN_CTX and BIGNUM of `secure` are erased when they are freed.
typedef struct bignum BIGNUM;
typedef struct context BN_CTX;
typedef struct group EC_GROUP;
typedef struct point EC_POINT;

#define FUNCTIONS(X)                                                                                                   \
  X(BIGNUM *, BN_secure_new, (void))                                                                                   \
  X(BIGNUM *, BN_bin2bn, (const unsigned char *, int, BIGNUM *))                                                       \
  X(int, BN_is_zero, (const BIGNUM *))                                                                                 \
  X(int, BN_ucmp, (const BIGNUM *, const BIGNUM *))                                                                    \
  X(void, BN_clear_free, (BIGNUM *))                                                                                   \
  X(BN_CTX *, BN_CTX_secure_new, (void))                                                                               \
  X(void, BN_CTX_free, (BN_CTX *))                                                                                     \
  X(EC_GROUP *, EC_GROUP_new_by_curve_name, (int))                                                                     \
  X(const BIGNUM *, EC_GROUP_get0_order, (const EC_GROUP *))                                                           \
  X(void, EC_GROUP_free, (EC_GROUP *))                                                                                 \
  X(EC_POINT *, EC_POINT_new, (const EC_GROUP *))                                                                      \
  X(int, EC_POINT_oct2point, (const EC_GROUP *, EC_POINT *, const unsigned char *, size_t, BN_CTX *))                  \
  X(int, EC_POINT_mul, (const EC_GROUP *, EC_POINT *, const BIGNUM *, const EC_POINT *, const BIGNUM *, BN_CTX *))     \
  X(size_t, EC_POINT_point2oct, (const EC_GROUP *, const EC_POINT *, int, unsigned char *, size_t, BN_CTX *))          \
  X(void, EC_POINT_clear_free, (EC_POINT *))                                                                           \
  X(int, ERR_set_mark, (void))                                                                                         \
  X(int, ERR_pop_to_mark, (void))

#define DECLARE(result, name, parameters) result(*name) parameters;
static struct {
  FUNCTIONS(DECLARE)
} library;

static const char *problem = "not opened";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
  void *handle = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *text = dlerror();
    problem = text == NULL ? "dlopen failed" : strdup(text);
    return;
  }
#define FIND(result, name, parameters)                                                                                 \
  *(void **)&library.name = dlsym(handle, #name);                                                                      \
  if (library.name == NULL) {                                                                                          \
    problem = "libcrypto.so.3 has no " #name;                                                                          \
    return;                                                                                                            \
  }
  FUNCTIONS(FIND)
  problem = NULL;
}

const char *ringtap_p256_load(void) {
  pthread_once(&once, load);
  return problem;
}

// NID_X9_62_prime256v1 and POINT_CONVERSION_UNCOMPRESSED; the form begins with an octet of that value.
enum { P256 = 415, UNCOMPRESSED = 4, COORDINATES = 64 };

bool ringtap_p256_multiply(const uint8_t *number, const uint8_t *point, uint8_t *product) {
  unsigned char octets[1 + COORDINATES] = {UNCOMPRESSED};
  library.ERR_set_mark();
  BN_CTX *context = library.BN_CTX_secure_new();
  BIGNUM *scalar = library.BN_secure_new();
  EC_GROUP *group = library.EC_GROUP_new_by_curve_name(P256);
  EC_POINT *base = group ? library.EC_POINT_new(group) : NULL, *result = group ? library.EC_POINT_new(group) : NULL;
  bool is_done = context && scalar && base && result && library.BN_bin2bn(number, 32, scalar) &&
                 !library.BN_is_zero(scalar) && library.BN_ucmp(scalar, library.EC_GROUP_get0_order(group)) < 0;
  if (is_done && point != NULL) {
    memcpy(octets + 1, point, COORDINATES);
    // It checks that the point is on the curve.
    is_done = library.EC_POINT_oct2point(group, base, octets, sizeof octets, context) == 1 &&
              library.EC_POINT_mul(group, result, NULL, base, scalar, context) == 1;
  } else if (is_done) {
    is_done = library.EC_POINT_mul(group, result, scalar, NULL, NULL, context) == 1;
  }
  is_done =
      is_done && library.EC_POINT_point2oct(group, result, UNCOMPRESSED, octets, sizeof octets, context) == sizeof octets;
  if (is_done) memcpy(product, octets + 1, COORDINATES);
  explicit_bzero(octets, sizeof octets);
  library.EC_POINT_clear_free(result);
  library.EC_POINT_clear_free(base);
  library.EC_GROUP_free(group);
  library.BN_clear_free(scalar);
  library.BN_CTX_free(context);
  // What a point that was refused left; the errors of other callers stay.
  library.ERR_pop_to_mark();
  return is_done;
}
