// A row of floats times 64 columns of weights of few bits, NB vectors of 16 columns at a time, in float.
//
// Instance: NB, BITS (of a weight).
//
// x              the row, blocks * block floats
// w              records as in clgraph/ops/block_records.py, `pieces` words of a column in each
// zeros          whether the records have zero points; else they are 2^(BITS - 1)
// c              the result, of whose 64 columns the first `columns` exist and are written
//
// The sums run in float with fma, in order, a block at a time, whose sums are then added up, scaled:
// |error| <= (block + blocks + 2) 2^-24 sum |x w|.
#include "few_bits.clh"

#ifndef NB
  #define NB 4
#endif
#ifndef BITS
  #define BITS 4
#endif
#define FIELDS (8 / BITS)

NOINLINE static void micro_block_row(__global const float* restrict x, const int blocks, __global const uint* restrict w,
                                     const int pieces, const int zeros, __global float* restrict c, const int columns) {
  const int record = 64 * (pieces + 1) + 16 * zeros;
  for (int j0 = 0; j0 * 16 < columns; j0 += NB) {
    __global const float* xs = x;
    __global const uint* from = w;
    float16 sum[NB];
    #pragma unroll
    for (int j = 0; j < NB; j++) sum[j] = 0.0f;
    #pragma unroll 1
    for (int b = 0; b < blocks; b++, from += record) {
      float16 part[NB], zero[NB];
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        part[j] = 0.0f;
        zero[j] = zero_points((__global const uchar*)(from + 64 * (pieces + 1)) + (j0 + j) * 16, zeros, BITS);
      }
      #pragma unroll 1
      for (int p = 0; p < pieces; p++, xs += 4 * FIELDS) {
        uint16 words[NB];
        #pragma unroll
        for (int j = 0; j < NB; j++) words[j] = load_words(from + p * 64 + (j0 + j) * 16);
        #pragma unroll
        for (int f = 0; f < FIELDS; f++) {
          #pragma unroll
          for (int e = 0; e < 4; e++) {
            const float16 v = (float16)(xs[4 * f + e]);
            #pragma unroll
            for (int j = 0; j < NB; j++)
              part[j] = fma(v, centred(words[j], BITS * f + 8 * e, (1u << BITS) - 1, zero[j]), part[j]);
          }
        }
      }
      #pragma unroll
      for (int j = 0; j < NB; j++)
        sum[j] = fma(part[j], LOAD_LOOSE((__global const float*)from + 64 * pieces + (j0 + j) * 16), sum[j]);
    }
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      const int lanes = min(16, columns - (j0 + j) * 16);
      if (lanes > 0) store_lanes(c + (j0 + j) * 16, sum[j], lanes);
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_block_row_alone(__global const float* x, __global const uint* w, __global float* c, const int blocks) {
  micro_block_row(x, blocks, w, 4, 0, c, 64);
}
#endif
