// One register block of a convolution: NB blocks of 16 output channels by UR neighbouring pixels of one row.
//
//   out[b][i][o] = min(max(bias[b][o] + sum over c, ky, kx of in[c][ky][i S + kx] w[c][ky][kx][b][o] + res[b][i][o], low), high)
//
// Instance: NB, UR; S the horizontal stride (0: a run-time one, `stride`); PX the floats of an input pixel, 16 for blocked
// input, 1 for planes of single channels. AVX-512 holds NB * UR <= 28 accumulators, AVX2 6.
//
// ip, wp      input at the window of the first pixel; weights [c / 16][ky][kx][16][NB * 16], the last block padded
// blocks      of the NB those that there are; the others' weights are read, their bias, residual and output are not there
// bias, res   16 floats a block, planes; 0 for none
// channels    input channels, counted one by one;  kernel_y, kernel_x: of the window
// parts       0, or the input channels that are read, as `channels` runs of neighbours in one block, three integers each:
//             floats to the first one from ip and from wp, and how many (at most 16; blocked input alone)
// in_c, in_y, in_x     floats from one block (PX = 1: channel), window row, window column of the input to the next
// stride      floats from one pixel's window to the next, read where S is 0
// out_c, res_c         floats from one block of the output and the residual to the next
// ahead, lines         `lines` cache lines are prefetched from `ahead` on for each (block, ky, kx); blocked input alone
//
// All of NB, UR, S, PX are constants of the instance; the sum runs in float with fma, channels innermost:
// |error| <= n 2^-24 sum |in w| for n = channels * kernel_y * kernel_x, plus one rounding each for bias and residual.
#include "tile.clh"

#ifndef NB
  #define NB 2
#endif
#ifndef UR
  #define UR 14
#endif
#ifndef S
  #define S 1
#endif
#ifndef PX
  #define PX 16
#endif
#define PIXEL(i) (S ? (i) * S * PX : (i) * stride)

NOINLINE static void micro_conv(__global const float* restrict ip, __global const float* restrict wp,
                                __global const float* restrict bias, __global const float* restrict res,
                                __global float* restrict op, const int blocks, const int channels,
                                __global const int* restrict parts, const int kernel_y,
                                const int kernel_x, const int in_c, const int in_y, const int in_x, const int stride,
                                const int out_c, const int res_c, const float low, const float high,
                                __global const float* ahead, const int lines) {
  float16 acc[NB][UR];
  #pragma unroll
  for (int b = 0; b < NB; b++) {
    const float16 first = bias && b < blocks ? LOAD16(bias + b * 16) : (float16)(0.0f);
    #pragma unroll
    for (int i = 0; i < UR; i++) acc[b][i] = first;
  }
  __global const float *start = ip, *weights = wp;
  for (int c = 0; c < channels; c += PX > 1 && parts ? 1 : PX, ip += in_c) {
    int present = PX == 1 ? 1 : min(PX, channels - c);
    __global const float* row = ip;
    if (PX > 1 && parts) {
      row = start + parts[3 * c];
      wp = weights + parts[3 * c + 1];
      present = parts[3 * c + 2];
    }
    for (int ky = 0; ky < kernel_y; ky++, row += in_y) {
      __global const float* pixel = row;
      for (int kx = 0; kx < kernel_x; kx++, pixel += in_x) {
        for (int l = 0; PX > 1 && l < lines; l++) __builtin_prefetch(ahead + l * 16, 0, 2);
        ahead += lines * 16;
        #pragma unroll 1
        for (int k = 0; k < present; k++) {
          float16 w[NB];
          #pragma unroll
          for (int b = 0; b < NB; b++) w[b] = LOAD16(wp + (k * NB + b) * 16);
          #pragma unroll
          for (int i = 0; i < UR; i++) {
            const float16 v = (float16)(pixel[PIXEL(i) + k]);
            #pragma unroll
            for (int b = 0; b < NB; b++) acc[b][i] = fma(v, w[b], acc[b][i]);
          }
        }
        wp += PX * NB * 16;
      }
    }
  }
  #pragma unroll
  for (int b = 0; b < NB; b++) {
    const bool there = b < blocks;
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      float16 v = acc[b][i];
      if (res && there) v += LOAD16(res + (long)b * res_c + i * 16);
      v = v < (float16)(low) ? (float16)(low) : v;
      if (there) STORE16(op + (long)b * out_c + i * 16, v > (float16)(high) ? (float16)(high) : v);
    }
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_conv_alone(__global const float* in, __global const float* w, __global const float* bias,
                               __global float* out, const int channels, const int kernel_y, const int kernel_x,
                               const int in_c, const int in_y, const int out_c) {
  micro_conv(in, w, bias, 0, out, NB, channels, 0, kernel_y, kernel_x, in_c, in_y, PX, S * PX, out_c, 0, -INFINITY, INFINITY, w,
             0);
}
#endif
