// Measures products of pairs: as many instructions in 12 chains of `rounds` as canary_products.cl has multiply-adds.
//
// grid: any, y has 16 floats for each work-item
// Inline assembly of x86-64 with AVX-512 BF16: feature bf16.
__kernel void canary_bf16_products(__global float* y, const int rounds) {
  const int16 ones = 0x3f803f80;
  float16 sum[12];
  #pragma unroll
  for (int i = 0; i < 12; i++) sum[i] = (float16)(i);
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int i = 0; i < 12; i++) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum[i]) : "v"(ones), "v"(ones));
  }
  #pragma unroll
  for (int i = 1; i < 12; i++) sum[0] += sum[i];
  vstore16(sum[0], get_global_id(0), y);
}
