// One register block of a product of bfloat16 by tile registers: up to 32 rows (pixels) by 64 columns (output channels),
//
//   c[i][j] = min(max(bias[j] + sum over y, x, k of a[i][y][x][k] b[y][x][k][j] + res[i][j], low), high)
//
// Parameters as in micro_pairs.cl; pairs is a multiple of 16, and of rows that are not there something is read.
//
// Between TILES_BEGIN and TILES_END. Products are exact, each register adds 16 pairs before it rounds into the sum:
// |error| <= 2 n 2^-24 sum |a b| of n pairs in all, a rounding each for bias and residual; subnormal numbers count as zeros.
// Without AMX floats are multiplied.
#include "amx.clh"
#include "bfloat_pairs.clh"
#include "post_tile.clh"

NOINLINE static void micro_pair_tiles(__global const ushort* restrict a, const long a_row, __global const ushort* restrict b,
                                      __global const float* restrict bias, __global const float* restrict res,
                                      const int res_block, __global float* restrict c, const int c_row, const int c_block,
                                      const int rows, const int columns, const int pairs, const int runs_x, const int runs_y,
                                      const int run_x, const int run_y, const float low, const float high,
                                      __global const ushort* ahead, const int step) {
  float16 sums[64];
  for (int first = 0; first < columns; first += 32) {
    __global const ushort* w = b + first * 2;
#ifdef CLGRAPH_AMX_BF16
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
#else
    for (int i = 0; i < 64; i++) sums[i] = 0.0f;
#endif
    for (int y = 0; y < runs_y; y++)
      for (int x = 0; x < runs_x; x++) {
        __global const ushort* from = a + (long)y * run_y + (long)x * run_x;
        #pragma unroll 1
        for (int k = 0; k < pairs; k += 16, from += 32, w += 16 * 128) {
          for (int l = 0; l < (first ? 0 : 16 * step); l += 32) FETCH(ahead + l);
          ahead += first ? 0 : 16 * step;
#ifdef CLGRAPH_AMX_BF16
          TILE_LOAD(4, from, a_row * 2);
          TILE_LOAD(6, w, 256);
          TILE_ADD(0, 4, 6);
          TILE_LOAD(7, w + 32, 256);
          TILE_ADD(1, 4, 7);
          if (rows > 16) {
            TILE_LOAD(5, from + 16 * a_row, a_row * 2);
            TILE_ADD(2, 5, 6);
            TILE_ADD(3, 5, 7);
          }
#else
          for (int i = 0; i < rows * 2; i++)
            for (int l = 0; l < 16; l++) {
              const int16 v = (int16)(*(__global const int*)(from + i / 2 * a_row + l * 2));
              sums[i] = add_pairs(sums[i], as_int16(LOAD_LOOSE((__global const float*)(w + l * 128 + i % 2 * 32))), v);
            }
#endif
        }
      }
#ifdef CLGRAPH_AMX_BF16
    TILE_STORE(0, sums, 128);
    TILE_STORE(1, sums + 1, 128);
    TILE_STORE(2, sums + 32, 128);
    TILE_STORE(3, sums + 33, 128);
#endif
    for (int j = 0; j < 2 && first + j * 16 < columns; j++) {
      const int at = first / 16 + j, lanes = min(16, columns - at * 16);
      const float16 begin = bias ? LOAD_LOOSE(bias + at * 16) : (float16)(0.0f);
      for (int i = 0; i < rows; i++) {
        float16 v = sums[i * 2 + j] + begin;
        if (res) v += LOAD_LOOSE(res + (long)at * res_block + i * 16);
        v = v < (float16)(low) ? (float16)(low) : v;
        store_lanes(c + (long)i * c_row + (long)at * c_block, v > (float16)(high) ? (float16)(high) : v, lanes);
      }
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_pair_tiles_alone(__global const ushort* a, __global const ushort* b, __global float* c, const int rows,
                                     const int pairs) {
  TILES_BEGIN;
  micro_pair_tiles(a, 2 * pairs, b, 0, 0, 0, c, 64, 16, rows, 64, pairs, 1, 1, 0, 0, -INFINITY, INFINITY, b, 0);
  TILES_END;
}
#endif
