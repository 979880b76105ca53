// The first register block of a product of matrices, of UR rows by NB vectors of 16 columns, by elements of 16 bits: writes the
// floats that they are for the blocks below it, between products that do not wait for them.
//
// Instance: UR, NB as in micro_matmul.cl; BFLOAT (whether b has bfloat16; else halves).
//
// b            row k at b + k * 64, NB * 16 elements;  panel: where its floats are written, in the same places
// others       as in micro_matmul.cl; ahead moves on by step elements
//
// depth is at most what micro_matmul.cl adds up at a time. The sums run as there, on the same floats: the same bits, and error.
#include "narrow_floats.clh"
#include "post_tile.clh"

#ifndef UR
  #define UR 6
#endif
#ifndef NB
  #define NB 4
#endif
#ifndef BFLOAT
  #define BFLOAT 0
#endif

NOINLINE static void micro_widening_matmul(__global const float* restrict a, const long a_row, const int a_step,
                                           __global const ushort* restrict b, __global float* restrict panel,
                                           __global float* restrict c, const int c_row, const int columns, const int depth,
                                           const int begun, __global const ushort* ahead, const int step) {
  #pragma unroll
  for (int i = 0; i < UR; i++) {
    #pragma unroll
    for (int j = 0; j < NB; j++) FETCH_TO_WRITE(c + (long)i * c_row + j * 16);
  }
  float16 sum[NB][UR];
  #pragma unroll
  for (int j = 0; j < NB; j++) {
    #pragma unroll
    for (int i = 0; i < UR; i++) sum[j][i] = 0.0f;
  }
  #pragma unroll 1
  for (int k = 0; k < depth; k++, a += a_step, b += 64, panel += 64, ahead += step) {
    FETCH(ahead);
    FETCH(ahead + 32);
    float16 w[NB];
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      w[j] = BFLOAT ? bfloats_at(b + j * 16) : halves_at(b + j * 16);
      STORE16(panel + j * 16, w[j]);
    }
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      const float16 v = (float16)(a[i * a_row]);
      #pragma unroll
      for (int j = 0; j < NB; j++) sum[j][i] = fma(v, w[j], sum[j][i]);
    }
  }
  if (columns >= NB * 16) {
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        __global float* to = c + (long)i * c_row + j * 16;
        STORE_LOOSE(to, begun ? LOAD_LOOSE(to) + sum[j][i] : sum[j][i]);
      }
    }
    return;
  }
  float16 rows[UR][NB];
  #pragma unroll
  for (int i = 0; i < UR; i++) {
    #pragma unroll
    for (int j = 0; j < NB; j++) rows[i][j] = sum[j][i];
  }
  for (int i = 0; i < UR; i++)
    for (int j = 0; j * 16 < columns; j++) {
      __global float* to = c + (long)i * c_row + j * 16;
      const int lanes = min(16, columns - j * 16);
      store_lanes(to, begun ? load_lanes(to, 1, lanes) + rows[i][j] : rows[i][j], lanes);
    }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_widening_matmul_alone(__global const float* a, __global const ushort* b, __global float* panel,
                                          __global float* c, const int depth) {
  micro_widening_matmul(a, depth, 1, b, panel, c, NB * 16, NB * 16, depth, 0, b, 0);
}
#endif
