// UR rows of floats times 64 columns of weights of few bits, NB vectors of 16 columns at a time, in float.
//
// Instance: UR, NB, BITS (of a weight). AVX-512 holds UR * NB <= 20 accumulators, AVX2 4.
//
// x, x_row       the rows, blocks * block floats each
// w              records as in clgraph/ops/block_records.py, `pieces` words of a column in each
// zeros          whether the records have zero points; else they are 2^(BITS - 1)
// c, c_row       the result, of whose 64 columns the first `columns` exist and are written
//
// A weight becomes a float in a register, for all rows. The sums run in float with fma, in order, a block at a time, whose
// sums are then added up, scaled: |error| <= (block + blocks + 2) 2^-24 sum |x w|.
#include "few_bits.clh"
#include "records.clh"

#ifndef UR
  #define UR 1
#endif
#ifndef NB
  #define NB 4
#endif
#ifndef BITS
  #define BITS 4
#endif
#define FIELDS (8 / BITS)

NOINLINE static void micro_block_row(__global const float* restrict x, const long x_row, const int blocks,
                                     __global const uint* restrict w, const int pieces, const int zeros,
                                     __global float* restrict c, const long c_row, const int columns) {
  const int record = 64 * (pieces + 1) + 16 * zeros;
  for (int j0 = 0; j0 * 16 < columns; j0 += NB) {
    __global const float* xs = x;
    __global const uint* from = w;
    float16 sum[UR][NB];
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < NB; j++) sum[i][j] = 0.0f;
    }
    #pragma unroll 1
    for (int b = 0; b < blocks; b++, from += record) {
      float16 part[UR][NB], zero[NB];
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        #pragma unroll
        for (int i = 0; i < UR; i++) part[i][j] = 0.0f;
        zero[j] = zero_points((__global const uchar*)(from + 64 * (pieces + 1)) + (j0 + j) * 16, zeros, BITS);
      }
      #pragma unroll 1
      for (int p = 0; p < pieces; p++, xs += 4 * FIELDS) {
        uint16 words[NB];
        #pragma unroll
        for (int j = 0; j < NB; j++) {
          FETCH_RECORD(from + p * 64 + (j0 + j) * 16, UR);
          words[j] = load_words(from + p * 64 + (j0 + j) * 16);
        }
        #pragma unroll
        for (int f = 0; f < FIELDS; f++) {
          #pragma unroll
          for (int e = 0; e < 4; e++) {
            float16 weights[NB];
            #pragma unroll
            for (int j = 0; j < NB; j++) weights[j] = centred(words[j], BITS * f + 8 * e, (1u << BITS) - 1, zero[j]);
            #pragma unroll
            for (int i = 0; i < UR; i++) {
              const float16 v = (float16)(xs[i * x_row + 4 * f + e]);
              #pragma unroll
              for (int j = 0; j < NB; j++) part[i][j] = fma(v, weights[j], part[i][j]);
            }
          }
        }
      }
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        FETCH_RECORD(from + 64 * pieces + (j0 + j) * 16, UR);
        const float16 scale = LOAD_LOOSE((__global const float*)from + 64 * pieces + (j0 + j) * 16);
        #pragma unroll
        for (int i = 0; i < UR; i++) sum[i][j] = fma(part[i][j], scale, sum[i][j]);
      }
    }
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        const int lanes = min(16, columns - (j0 + j) * 16);
        if (lanes > 0) store_lanes(c + i * c_row + (j0 + j) * 16, sum[i][j], lanes);
      }
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_block_row_alone(__global const float* x, __global const uint* w, __global float* c, const int blocks) {
  micro_block_row(x, 0, blocks, w, 4, 0, c, 64, 64);
}
#endif
