"""Whose work a candidate's is."""

import pytest

from engine.decide.policy import only_libraries

TORCH = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


@pytest.mark.parametrize(
    "names",
    [
        [TORCH],
        [TORCH, "Memcpy DtoD (Device -> Device)"],
        ["sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cublas"],
        ["nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"],
        ["triton_red_fused__softmax_0"],
        ["void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>"],
    ],
)
def test_kernels_of_a_library_are_recognised(names):
    assert "the library's" in only_libraries(names)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["Memset (Device)"],
        ["softmax_warp_per_row(float const*, float*, long, long)"],
        ["void cutlass::device_kernel<MyGemm>"],
        [TORCH, "add_kernel"],
        ["triton_softmax_kernel"],
    ],
)
def test_one_kernel_of_its_own_is_enough_and_none_seen_says_nothing(names):
    assert only_libraries(names) is None
