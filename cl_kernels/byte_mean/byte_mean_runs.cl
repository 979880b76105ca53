// y = factor * (sum of x over its middle axis - zeros), x [outer][count][inner] bytes, y [outer][inner] float, both dense.
//
// A unit is a mean of a run where inner is 1, else up to 64 means side by side; a ticket is a run of units.
//
// inp, out            dense
// flip                128: bytes have signs, and are 128 more without; else 0
// zeros               count times the zero point, and flip
// count, inner        sizes;  pieces: units of inner;  units, ticket_units: in all, of a ticket
// factor
// Error: sums are exact, then two roundings.
#include "tile.clh"

typedef uchar16 __attribute__((aligned(1))) mean_uchar16;
#define MEAN_READ(p) convert_int16(*(__global const mean_uchar16*)(p) ^ flip)

static void byte_mean_runs(__global const byte_mean_runs_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_units, d->units), count = d->count, inner = d->inner;
  const uchar flip = d->flip;
  for (int unit = ticket * d->ticket_units; unit < last; unit++) {
    const int outer = unit / d->pieces, c = (unit - outer * d->pieces) * 64, lanes = min(64, inner - c);
    __global const uchar* x = AT(const uchar, banks, d->inp) + (long)outer * count * inner + c;
    __global float* y = AT(float, banks, d->out) + (long)outer * inner + c;
    if (inner == 1) {
      int16 a = 0, b = 0;
      int i = 0;
      for (; i + 32 <= count; i += 32) a += MEAN_READ(x + i), b += MEAN_READ(x + i + 16);
      if (i + 16 <= count) a += MEAN_READ(x + i), i += 16;
      a += b;
      const int8 h = a.lo + a.hi;
      const int4 g = h.lo + h.hi;
      int sum = g.s0 + g.s1 + g.s2 + g.s3;
      for (; i < count; i++) sum += x[i] ^ flip;
      y[0] = (float)(sum - d->zeros) * d->factor;
      continue;
    }
    if (lanes == 64) {
      int16 a = 0, b = 0, e = 0, f = 0;
      for (int i = 0; i < count; i++, x += inner) {
        a += MEAN_READ(x), b += MEAN_READ(x + 16), e += MEAN_READ(x + 32), f += MEAN_READ(x + 48);
      }
      STORE_LOOSE(y, convert_float16(a - d->zeros) * d->factor);
      STORE_LOOSE(y + 16, convert_float16(b - d->zeros) * d->factor);
      STORE_LOOSE(y + 32, convert_float16(e - d->zeros) * d->factor);
      STORE_LOOSE(y + 48, convert_float16(f - d->zeros) * d->factor);
      continue;
    }
    int at = 0;
    for (; at + 16 <= lanes; at += 16) {
      int16 a = 0;
      for (int i = 0; i < count; i++) a += MEAN_READ(x + (long)i * inner + at);
      STORE_LOOSE(y + at, convert_float16(a - d->zeros) * d->factor);
    }
    for (; at < lanes; at++) {
      int sum = 0;
      for (int i = 0; i < count; i++) sum += x[(long)i * inner + at] ^ flip;
      y[at] = (float)(sum - d->zeros) * d->factor;
    }
  }
}
#undef MEAN_READ
