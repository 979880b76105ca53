// Product of a row in digits and 64 columns of weights of few bits.
//
// Instance: DIGITS (bytes of a number of x: 3 or 1), PARTS (sums of a block: as many, or 1 that holds them), BITS (of a weight).
//
// x, sums, scales, rows   the row's digits, sums and scales of the first block, as block_digits.cl writes them for `rows` rows
// blocks, w               blocks of the row; records as in clgraph/ops/block_records.py
// pieces                  words of a column in a record
// zeros                   whether the records have zero points; else the sums are multiplied by them
// c                       the result, of whose 64 columns the first `columns` exist and are written
//
// Exact within a block: 255 (256 * 127 + 128) 256 < 2^31 bounds the two upper digits' sum, which the last one's is added to
// in float, and 8 * 8355000 * 32 < 2^31 that of 32 weights of 4 bits without zero points, in 1 part, whose overflows on the way
// cancel; the blocks' add up in float, in order: with that of block_digits.cl,
// |error| <= (blocks + 4) 2^-24 sum |x w| + 2^-24 sum over blocks (max |x| sum |w|), 2^-8 with one digit.
#include "digits.clh"
#include "post_tile.clh"
#include "records.clh"

#ifndef DIGITS
  #define DIGITS 3
#endif
#ifndef PARTS
  #define PARTS DIGITS
#endif
#ifndef BITS
  #define BITS 4
#endif
#define FIELDS (8 / BITS)

NOINLINE static void micro_digits(__global const char* restrict x, __global const int* restrict sums,
                                  __global const float* restrict scales, const int rows, const int blocks,
                                  __global const uint* restrict w, const int pieces, const int zeros,
                                  __global float* restrict c, const int columns) {
  const int record = 64 * (pieces + 1) + 16 * zeros, vectors = 2 * pieces / BITS;
  const long more = (long)(rows - 1) * vectors * 16 * DIGITS;
  float16 sum[4];
  #pragma unroll
  for (int j = 0; j < 4; j++) sum[j] = 0.0f;
  #pragma unroll 1
  for (int b = 0; b < blocks; b++, x += more, sums += rows * PARTS, scales += rows) {
    __global const uint* next = w + record;
    int16 part[4][DIGITS];
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      #pragma unroll
      for (int d = 0; d < DIGITS; d++) part[j][d] = d < PARTS ? sums[d] : 0;
    }
    if (zeros) {
      __global const uchar16* points = (__global const uchar16*)(w + 64 * (pieces + 1));
      #pragma unroll
      for (int j = 0; j < 4; j++) {
        const int16 point = convert_int16(points[j]);
        #pragma unroll
        for (int d = 0; d < DIGITS; d++) part[j][d] = short_products(point, part[j][d]);
      }
    }
    #pragma unroll 1
    for (int i = 0; i < vectors; i++, x += 16 * DIGITS, w += BITS / 2 * 64) {
      #pragma unroll
      for (int p = 0; p < BITS / 2; p++) {
        int16 words[4];
        #pragma unroll
        for (int j = 0; j < 4; j++) {
          FETCH_RECORD(w + p * 64 + j * 16, 1);
          words[j] = as_int16(LOAD_LOOSE((__global const float*)w + p * 64 + j * 16));
        }
        #pragma unroll
        for (int f = 0; f < FIELDS; f++) {
          int16 q[4];
          #pragma unroll
          for (int j = 0; j < 4; j++)
            q[j] = BITS == 8 ? words[j] : as_int16(as_uint16(words[j]) >> (uint16)(f * BITS)) & 0x01010101 * ((1 << BITS) - 1);
          #pragma unroll
          for (int d = 0; d < DIGITS; d++) {
            const int16 v = (int16)(*(__global const int*)(x + d * 16 + (p * FIELDS + f) * 4));
            #pragma unroll
            for (int j = 0; j < 4; j++) part[j][d] = add_dots(part[j][d], q[j], v);
          }
        }
      }
    }
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      FETCH_RECORD(w + j * 16, 1);
      const float16 scale = LOAD_LOOSE((__global const float*)w + j * 16);
      const int16 before = (part[j][DIGITS - 1] << 8) + part[j][DIGITS / 2];
      const int16 whole = DIGITS == 1 ? part[j][0] : (before << 8) + part[j][0];
      const float16 v = PARTS == 1 ? FLOATS_OF(whole) : sum_of_digits(part[j][0], before);
      sum[j] = fma(v * *scales, scale, sum[j]);
    }
    w = next;
  }
  #pragma unroll
  for (int j = 0; j < 4; j++) {
    const int lanes = min(16, columns - j * 16);
    if (lanes > 0) store_lanes(c + j * 16, sum[j], lanes);
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_digits_alone(__global const char* x, __global const int* sums, __global const float* scales,
                                 __global const uint* w, __global float* c, const int blocks) {
  micro_digits(x, sums, scales, 1, blocks, w, 4, 0, c, 64);
}
#endif
