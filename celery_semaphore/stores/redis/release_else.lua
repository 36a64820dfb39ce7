-- Of release: where somebody waits.
return answer_hand_on()
