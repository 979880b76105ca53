// One register block of a product of a row in digits and 64 columns of weights of 4 bits, as micro_digits.cl, by sums in 16
// bits: for CPUs that multiply bytes by vpmaddubsw.
//
// Instance: DIGITS (bytes of a number of x: 3 or 1).
//
// Parameters, result and error as in micro_digits.cl. Exact within a block: 16 products of at most 15 * 128 and their
// neighbours' stay below 2^15 for PIECES words, and are added up in 32 bits behind them.
#include "byte_pairs.clh"
#include "post_tile.clh"
#include "records.clh"

#ifndef DIGITS
  #define DIGITS 3
#endif
#define PIECES 4

NOINLINE static void micro_digit_pairs(__global const char* restrict x, __global const int* restrict sums,
                                       __global const float* restrict scales, const int rows, const int blocks,
                                       __global const uint* restrict w, const int pieces, const int zeros,
                                       __global float* restrict c, const int columns) {
  const int record = 64 * (pieces + 1) + 16 * zeros, mask = 0x0f0f0f0f;
  float16 sum[4];
  #pragma unroll
  for (int j = 0; j < 4; j++) sum[j] = 0.0f;
  #pragma unroll 1
  for (int b = 0; b < blocks; b++, w += record, x += (long)rows * pieces * 8 * DIGITS, sums += rows * DIGITS) {
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      const int16 point = zeros ? convert_int16(((__global const uchar16*)(w + 64 * (pieces + 1)))[j]) : (int16)(1);
      int8 low[DIGITS], high[DIGITS];
      #pragma unroll
      for (int d = 0; d < DIGITS; d++) {
        low[d] = point.lo * sums[d];
        high[d] = point.hi * sums[d];
      }
      #pragma unroll 1
      for (int first = 0; first < pieces; first += PIECES) {
        int8 pairs[DIGITS][2];
        #pragma unroll
        for (int d = 0; d < DIGITS; d++) pairs[d][0] = pairs[d][1] = 0;
        const int last = min(first + PIECES, pieces);
        #pragma unroll 1
        for (int p = first; p < last; p++) {
          FETCH_RECORD(w + p * 64 + j * 16, 1);
          const int16 words = as_int16(LOAD_LOOSE((__global const float*)w + p * 64 + j * 16));
          __global const char* xs = x + (p / 2 * DIGITS * 2 + p % 2) * 8;
          #pragma unroll
          for (int f = 0; f < 2; f++) {
            const int8 one = as_int8(as_uint8(words.lo) >> (uint8)(f * 4)) & mask;
            const int8 two = as_int8(as_uint8(words.hi) >> (uint8)(f * 4)) & mask;
            #pragma unroll
            for (int d = 0; d < DIGITS; d++) {
              const int8 v = (int8)(*(__global const int*)(xs + f * 4 + d * 16));
              pairs[d][0] = pair_sums(pairs[d][0], one, v);
              pairs[d][1] = pair_sums(pairs[d][1], two, v);
            }
          }
        }
        #pragma unroll
        for (int d = 0; d < DIGITS; d++) {
          low[d] += sum_of_pairs(pairs[d][0]);
          high[d] += sum_of_pairs(pairs[d][1]);
        }
      }
      float8 one = FLOATS8_OF(low[DIGITS - 1]), two = FLOATS8_OF(high[DIGITS - 1]);
      #pragma unroll
      for (int d = DIGITS - 2; d >= 0; d--) {
        one = fma(one, (float8)(256.0f), FLOATS8_OF(low[d]));
        two = fma(two, (float8)(256.0f), FLOATS8_OF(high[d]));
      }
      FETCH_RECORD(w + 64 * pieces + j * 16, 1);
      const float16 scale = LOAD_LOOSE((__global const float*)w + 64 * pieces + j * 16);
      sum[j] = fma((float16)(one, two) * scales[b * rows], scale, sum[j]);
    }
  }
  #pragma unroll
  for (int j = 0; j < 4; j++) {
    const int lanes = min(16, columns - j * 16);
    if (lanes > 0) store_lanes(c + j * 16, sum[j], lanes);
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_digit_pairs_alone(__global const char* x, __global const int* sums, __global const float* scales,
                                      __global const uint* w, __global float* c, const int blocks) {
  micro_digit_pairs(x, sums, scales, 1, blocks, w, 4, 0, c, 64);
}
#endif
