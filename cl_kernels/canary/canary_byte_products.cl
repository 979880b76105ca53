// Measures products of bytes without VNNI: as many words of four in 12 chains of `rounds` as canary_products.cl has
// multiply-adds, each of the instructions and loads of micro_bytes.cl.
//
// grid: any, y has SIMD floats for each work-item
// Inline assembly of x86-64 with AVX2, where SIMD is 16 with AVX-512 BW: feature byte_pairs.
#if SIMD == 16
  #define REGISTER "v"
typedef int16 words;
#else
  #define REGISTER "x"
typedef int8 words;
#endif

__kernel void canary_byte_products(__global float* y, const int rounds) {
  const words ones = (words)(0x10001), weights = (words)(0x01020304);
  __global words* from = (__global words*)y + get_global_id(0);
  words sum[12];
  #pragma unroll
  for (int i = 0; i < 12; i++) sum[i] = (words)(i);
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int i = 0; i < 12; i++) {
      words pairs;
      __asm__("vpbroadcastd %2, %1\n\tvpmaddubsw %3, %1, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
              : "+" REGISTER(sum[i]), "=&" REGISTER(pairs)
              : "m"(*(__global const int*)from), REGISTER(weights), "m"(ones));
    }
  }
  #pragma unroll
  for (int i = 1; i < 12; i++) sum[0] += sum[i];
  *from = sum[0];
}
